//! Starts real software for the cases: scripts written to the stage's directory, clients that
//! report each request as a line of JSON, and servers that need some configuration.

use std::ffi::OsStr;
use std::fs;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::case::Observed;
use crate::client::{Loaded, Request};
use crate::dns;
use crate::error::{Doing, LabError};
use crate::netns::{Netns, Process};
use crate::params::Params;
use crate::stage::Stage;
use crate::sys::TcpInfo;
use crate::talk::{self, Talk};

/// The client for cases with other protocols than HTTP.
const CLIENT: &str = include_str!("programs/client.py");

/// Writes a program's text to the stage's directory.
pub fn script(stage: &Stage, name: &str, text: &str) -> Result<PathBuf, LabError> {
    let path = stage.dir().join(name);
    fs::write(&path, text).doing(format!("write {name}"))?;
    Ok(path)
}

/// Starts a server and waits until it listens.
pub fn serve(
    stage: &Stage,
    command: Command,
    package: &str,
    endpoint: SocketAddr,
) -> Result<Process, LabError> {
    let process = Process::start(command, package)?;
    stage.wait_for_listener(endpoint)?;
    Ok(process)
}

/// Runs `client.py PROTOCOL ADDRESS PORT key=value …` in the client's namespace.
pub fn client(
    stage: &Stage,
    protocol: &str,
    server: SocketAddr,
    settings: &[(&str, u64)],
) -> Result<Loaded, LabError> {
    let path = script(stage, "client.py", CLIENT)?;
    let mut command = stage.client.command("python3");
    command.arg(path).arg(protocol);
    command.arg(server.ip().to_string()).arg(server.port().to_string());
    command.args(settings.iter().map(|(key, value)| format!("{key}={value}")));
    let what = format!("client.py {protocol}");
    let output = command.output().map_err(|e| missing(e, "python3"))?;
    if !output.status.success() {
        let stderr = String::from_utf8_lossy(&output.stderr).trim().to_owned();
        return Err(LabError::Command { command: what, stderr });
    }
    let text = String::from_utf8_lossy(&output.stdout);
    let parse = |line: &str| serde_json::from_str::<Request>(line).map_err(std::io::Error::from);
    let requests: Result<Vec<_>, _> = text.lines().map(parse).collect();
    let mut requests = requests.doing(format!("read the report of {what}"))?;
    for request in &mut requests {
        request.server_endpoint = server.to_string();
    }
    requests.sort_by_key(|r| r.start_ns);
    Ok(Loaded { requests, kernel: TcpInfo::default() })
}

fn missing(source: std::io::Error, program: &str) -> LabError {
    match source.kind() {
        std::io::ErrorKind::NotFound => {
            LabError::Missing { program: program.to_owned(), package: program.to_owned() }
        }
        _ => LabError::Io { what: format!("run {program}"), source },
    }
}

/// Returns the first line of a program's version output; empty if there is none.
pub fn version(netns: &Netns, program: impl AsRef<OsStr>, arg: &str) -> String {
    let program = program.as_ref().to_string_lossy().into_owned();
    let Ok(output) = netns.command(&program).arg(arg).output() else {
        return String::new();
    };
    let text = [output.stdout, output.stderr].concat();
    let text = String::from_utf8_lossy(&text);
    text.lines().next().unwrap_or_default().trim().to_owned()
}

/// Starts the captures and sends `messages` on each of the connections of the case, with its pauses between
/// an answer and the next message.
pub fn converse(
    stage: &mut Stage,
    p: &Params,
    server: SocketAddr,
    messages: Vec<Vec<u8>>,
    is_whole: fn(&[u8]) -> bool,
) -> Result<Observed, LabError> {
    stage.start_captures()?;
    let talk = Talk {
        server,
        connections: p.get("connections")?,
        messages,
        spacing: p.duration("spacing_ns")?,
        is_whole,
    };
    Ok(Observed::new(talk::run(&stage.client, &talk)?, server))
}

/// Starts Redis without persistence.
pub fn redis(stage: &Stage, server: SocketAddr) -> Result<Process, LabError> {
    let mut command = stage.server.command("redis-server");
    let (address, port) = (server.ip().to_string(), server.port().to_string());
    command.args(["--bind", &address, "--port", &port]);
    command.args(["--protected-mode", "no", "--save", "", "--appendonly", "no"]);
    serve(stage, command, "redis-server", server)
}

/// Starts nginx with these directives inside `http`.
pub fn nginx(stage: &Stage, http: &str, server: SocketAddr) -> Result<Process, LabError> {
    let at = stage.dir().display();
    let temporary: String = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
        .map(|kind| format!("{kind}_temp_path {at}/{kind};\n"))
        .concat();
    let configuration = format!(
        "daemon off;\nmaster_process off;\npid {at}/nginx.pid;\nerror_log {at}/error.log;\n\
         events {{ worker_connections 1024; }}\n\
         http {{\naccess_log off;\n{temporary}keepalive_requests 100000;\n{http}\n}}\n"
    );
    let path = script(stage, "nginx.conf", &configuration)?;
    let mut command = stage.server.command("nginx");
    command.arg("-c").arg(path);
    command.arg("-e").arg(stage.dir().join("error.log"));
    serve(stage, command, "nginx", server)
}

/// Returns nginx and its version, for the labels.
pub fn nginx_version(stage: &Stage) -> (String, String) {
    ("nginx".to_owned(), version(&stage.server, "nginx", "-v"))
}

/// Starts nginx with TLS, files from the stage's directory, and a certificate made for the run.
/// `ssl` contains additional directives for the server.
pub fn nginx_tls(stage: &Stage, ssl: &str, server: SocketAddr) -> Result<Process, LabError> {
    let at = stage.dir().display();
    let (key, certificate) = (format!("{at}/key.pem"), format!("{at}/certificate.pem"));
    let new = ["req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2"];
    let files = ["-keyout", &key, "-out", &certificate, "-subj", "/CN=lab"];
    stage.server.run("openssl", &[&new[..], &files[..]].concat())?;
    let http = format!(
        "sendfile on;\ntcp_nopush on;\n\
         server {{ listen {server} ssl; root {at};\nssl_certificate {certificate};\n\
         ssl_certificate_key {key};\n{ssl}\n}}"
    );
    nginx(stage, &http, server)
}

/// Starts nginx at `at` as a TLS proxy that forwards requests to `server` in plain HTTP on
/// keep-alive connections.
///
/// # Errors nginx or openssl is missing or fails.
pub fn tls_proxy(stage: &Stage, at: SocketAddr, server: SocketAddr) -> Result<Process, LabError> {
    let pass = format!(
        "location / {{ proxy_pass http://{server}; proxy_http_version 1.1; \
         proxy_set_header Connection \"\"; }}"
    );
    nginx_tls(stage, &pass, at)
}

/// Returns the newest installed PostgreSQL, in the directory that Debian uses.
fn postgres_programs() -> Result<PathBuf, LabError> {
    let versions = fs::read_dir("/usr/lib/postgresql").into_iter().flatten();
    let mut found: Vec<PathBuf> = versions.flatten().map(|e| e.path().join("bin")).collect();
    found.sort();
    found.pop().ok_or_else(|| LabError::Missing {
        program: "postgres".to_owned(),
        package: "postgresql".to_owned(),
    })
}

/// Makes a command run as the user `postgres`, because PostgreSQL refuses to run as root. It ends
/// with the lab by SIGINT, since SIGKILL would leave shared memory behind.
fn as_postgres(mut setpriv: Command, program: &Path) -> Command {
    let command = &mut setpriv;
    command.args(["--reuid=postgres", "--regid=postgres", "--init-groups"]);
    command.args(["--pdeathsig", "INT"]).arg(program);
    setpriv
}

/// Starts PostgreSQL with an empty cluster that trusts all clients; returns it with its version.
/// Stop it with [`Process::stop`], since SIGKILL would leave shared memory behind.
pub fn postgres(stage: &Stage, server: SocketAddr) -> Result<(Process, String), LabError> {
    postgres_with(stage, server, &[], None)
}

/// Starts PostgreSQL as [`postgres`] does, with additional settings (`name=value`) and its own
/// `resolv.conf`.
pub fn postgres_with(
    stage: &Stage,
    server: SocketAddr,
    settings: &[&str],
    resolv_conf: Option<&Path>,
) -> Result<(Process, String), LabError> {
    let programs = postgres_programs()?;
    let data = stage.dir().join("postgres");
    // Removes the data of an earlier run of the load on this stage.
    let _ = fs::remove_dir_all(&data);
    fs::create_dir_all(&data).doing("make the PostgreSQL directory")?;
    let owner = data.display().to_string();
    stage.server.run("chown", &["postgres:postgres", &owner])?;
    // On the way to its data, PostgreSQL may go through the stage's directory, and see nothing.
    let above = stage.dir().display().to_string();
    stage.server.run("chgrp", &["postgres", &above])?;
    stage.server.run("chmod", &["0710", &above])?;
    let mut initdb = as_postgres(stage.server.command("setpriv"), &programs.join("initdb"));
    initdb.args(["--no-sync", "--auth=trust", "--username=postgres", "-D"]);
    let made = initdb.arg(&data).output().doing("run initdb")?;
    if !made.status.success() {
        return Err(LabError::Command {
            command: "initdb".to_owned(),
            stderr: String::from_utf8_lossy(&made.stderr).trim().to_owned(),
        });
    }
    let everyone = "host all all all trust\n";
    fs::write(data.join("pg_hba.conf"), everyone).doing("write pg_hba.conf")?;
    let setpriv = match resolv_conf {
        Some(path) => dns::command(&stage.server, path, "setpriv"),
        None => stage.server.command("setpriv"),
    };
    let mut command = as_postgres(setpriv, &programs.join("postgres"));
    command.arg("-D").arg(&data).arg("-p").arg(server.port().to_string());
    command.arg("-h").arg(server.ip().to_string());
    command.args(["-c", "fsync=off", "-c", "unix_socket_directories="]);
    command.args(["-c", "autovacuum=off"]);
    command.args(settings.iter().flat_map(|s| ["-c", s]));
    let process = serve(stage, command, "postgresql", server)?;
    let version = version(&stage.server, programs.join("postgres"), "--version");
    Ok((process, version))
}

/// PostgreSQL at the application's own host, so that the server's capture of all interfaces shows both
/// connections.
pub const LOCAL_POSTGRES: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 5432);

/// Starts a web server at `server` that sends `queries` queries to [`LOCAL_POSTGRES`] for each request,
/// one after the other. `ROW` in the query becomes the number of the query.
pub fn asks_postgres(
    stage: &Stage,
    server: SocketAddr,
    queries: u64,
    query: &str,
) -> Result<Process, LabError> {
    let path = script(stage, "asks_postgres.py", include_str!("programs/asks_postgres.py"))?;
    let mut command = stage.server.command("python3");
    command.arg(path).arg(server.ip().to_string()).arg(server.port().to_string());
    command.arg(queries.to_string()).arg(query);
    serve(stage, command, "python3", server)
}

/// Returns the home of an installed JDK of this major version.
pub fn jdk(major: u64) -> Result<PathBuf, LabError> {
    let homes = fs::read_dir("/usr/lib/jvm").into_iter().flatten().flatten();
    let wanted = format!("JAVA_VERSION=\"{major}");
    let is_wanted = |home: &PathBuf| {
        let release = fs::read_to_string(home.join("release")).unwrap_or_default();
        release.contains(&wanted) && home.join("bin/javac").exists()
    };
    let mut homes = homes.map(|e| e.path());
    homes.find(is_wanted).ok_or_else(|| LabError::Missing {
        program: format!("JDK {major}"),
        package: format!("openjdk-{major}-jdk-headless"),
    })
}
