//! PostgreSQL in the server's namespace.

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::dns;
use crate::error::{Doing, LabError};
use crate::netns::{Process, run};
use crate::stage::Stage;

/// Makes a database in the stage's directory, starts PostgreSQL with more settings
/// (`name=value`), and returns when it listens at `server`. `resolv_conf` takes the place of
/// `/etc/resolv.conf` for it.
///
/// # Errors
/// PostgreSQL is missing or refuses.
pub fn start(
    stage: &Stage,
    server: SocketAddr,
    settings: &[&str],
    resolv_conf: Option<&Path>,
) -> Result<Process, LabError> {
    let data = stage.dir().join("postgres");
    fs::create_dir(&data).doing("make PostgreSQL's directory")?;
    let at = data.to_string_lossy().into_owned();
    run("chown", &["postgres", &at])?;
    let mut initdb = as_postgres(stage.server.command("setpriv"), "initdb");
    initdb.args(["--no-sync", "--auth=trust", "--pgdata", &at]);
    let made = initdb.current_dir(&data).output().doing("run initdb")?;
    if !made.status.success() {
        return Err(LabError::Missing {
            program: "PostgreSQL".to_owned(),
            package: "postgresql".to_owned(),
        });
    }
    let anyone = "host all all all trust\n";
    fs::write(data.join("pg_hba.conf"), anyone).doing("write pg_hba.conf")?;
    let setpriv = match resolv_conf {
        Some(path) => dns::command(&stage.server, path, "setpriv"),
        None => stage.server.command("setpriv"),
    };
    let mut postgres = as_postgres(setpriv, "postgres");
    postgres.args(["-D", &at, "-h", &server.ip().to_string(), "-k", &at, "-F"]);
    settings.iter().for_each(|setting| {
        postgres.args(["-c", setting]);
    });
    let postgres = Process::start(postgres, "postgresql")?;
    stage.wait_for_listener(server)?;
    Ok(postgres)
}

/// PostgreSQL's programs are not on the path; the newest version's are taken.
fn program(name: &str) -> PathBuf {
    let versions = fs::read_dir("/usr/lib/postgresql").into_iter().flatten();
    let programs = versions.flatten().map(|v| v.path().join("bin").join(name));
    programs.max().unwrap_or_else(|| name.into())
}

/// A command as the user `postgres`, because PostgreSQL refuses to be root. Changing the user
/// would clear the signal that ends it with the lab.
fn as_postgres(mut command: Command, name: &str) -> Command {
    command.args(["--reuid=postgres", "--regid=postgres"]);
    command.args(["--clear-groups", "--pdeathsig=KILL"]);
    command.arg(program(name));
    command
}

/// PostgreSQL and its version, for the labels.
pub fn version() -> (String, String) {
    let said = run(&program("postgres").to_string_lossy(), &["--version"]);
    let version = said.unwrap_or_default().trim().to_owned();
    ("postgres".to_owned(), version)
}
