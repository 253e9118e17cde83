//! `--keep`: a process of its own keeps the stage up until `tcpwhy lab clean` ends it.

use super::args::RunArgs;
use super::outcome::CaseOutcome;
use crate::lab::error::Error;
use serde::{Deserialize, Serialize};
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use tcpwhy_core::app::Protocol;
use tcpwhy_core::model::EndpointReport;
use tcpwhy_core::report::{Look, Page, Paint};
use tcpwhy_lab::{Case, LabError, Role, RunOptions, Stage, cleanup};

/// Description of a stage that is kept up, printed by the process that holds it.
#[derive(Serialize, Deserialize)]
pub struct Held {
    client: String,
    server: String,
    interface: String,
}

/// Builds the stage with its fault, reports that on standard output, and waits until it is ended.
///
/// # Errors [`LabError`] if the stage cannot be built.
pub fn hold(case: &Case, options: &RunOptions) -> Result<(), LabError> {
    match tcpwhy_lab::run::hold(case, options, up)? {}
}

fn up(stage: &Stage, case: &str) {
    let held = Held {
        client: stage.client.name().to_owned(),
        server: stage.server.name().to_owned(),
        interface: tcpwhy_lab::stage::INTERFACE.to_owned(),
    };
    let announced = cleanup::keep(stage.dir(), case).and_then(|()| {
        let mut out = std::io::stdout().lock();
        writeln!(out, "{}", serde_json::to_string(&held)?)?;
        out.flush()
    });
    if let Err(error) = announced {
        tcpwhy_cli::output::note(&format!("tcpwhy: the stage cannot be kept: {error}"));
        cleanup::end(1);
    }
}

/// Starts the process that holds the stage, and waits until the stage is up.
///
/// # Errors The process cannot be started, or reports why it cannot hold the stage.
pub fn start(asked: &RunArgs) -> Result<Held, Error> {
    let mut command = Command::new(std::env::current_exe().map_err(Error::Keep)?);
    command.args(["hold", &asked.case, "--seed", &asked.seed.to_string()]);
    for (name, value) in &asked.set.0 {
        command.arg(format!("--{name}")).arg(value);
    }
    // The process gets its own group, so that Ctrl-C in this terminal does not end it.
    command.process_group(0).stdin(Stdio::null());
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().map_err(Error::Keep)?;
    let mut line = String::new();
    if let Some(stdout) = child.stdout.take() {
        BufReader::new(stdout).read_line(&mut line).map_err(Error::Keep)?;
    }
    if let Ok(held) = serde_json::from_str(&line) {
        return Ok(held);
    }
    let mut said = String::new();
    if let Some(mut stderr) = child.stderr.take() {
        stderr.read_to_string(&mut said).map_err(Error::Keep)?;
    }
    let said = said.trim().trim_start_matches("tcpwhy: ").to_owned();
    Err(Error::Keep(std::io::Error::other(said)))
}

/// Returns commands that the user can try on the stage.
pub fn commands(held: &Held, outcome: &CaseOutcome<'_>, look: &Look) -> String {
    let mut page = Page::new(look);
    page.line("");
    let title = look.paint(Paint::Bold, "kept up, with the fault");
    page.line(&format!("{title}   to be explored by hand, as root"));
    let inside = |netns: &str, command: &str| format!("ip netns exec {netns} {command}");
    let report = outcome.diagnosis().map(|it| &it.report);
    if let Some(request) = report.and_then(|it| it.endpoints.first()).and_then(request) {
        page.command("load", &inside(&held.client, &request));
    }
    if outcome.causes().iter().any(|cause| cause.culprit_role == Role::Client) {
        page.labelled("", "(the fault is the client's: one of your own may do it right)");
    }
    let tcpdump = format!("tcpdump -n -i {}", held.interface);
    page.command("watch", &inside(&held.server, &tcpdump));
    page.command("sockets", &inside(&held.server, "ss -tin"));
    let diagnose = format!("{tcpdump} -w - 2>/dev/null | tcpwhy -");
    page.command("diagnose", &inside(&held.server, &diagnose));
    page.command("shell", &inside(&held.client, "bash"));
    page.command("take down", "tcpwhy lab clean");
    page.finish()
}

/// Returns a command that sends requests of the most frequent kind at `at`.
fn request(at: &EndpointReport) -> Option<String> {
    let endpoint = at.endpoint.to_string();
    let (ip, port) = endpoint.rsplit_once(':')?;
    let ip = ip.trim_matches(['[', ']']);
    let kind = at.kinds.first().map_or("", |kind| kind.kind.as_str());
    let (method, path) = kind.split_once(' ').unwrap_or(("GET", "/"));
    // Several requests on one connection, because kernels acknowledge only the first segments at
    // once. curl numbers them in the fragment of the URL, which is not sent.
    let curl = |scheme: &str| {
        let data = if method == "POST" { " -d x" } else { "" };
        let report = "-o /dev/null -w '%{time_total} s\\n'";
        format!("curl -sk{data} {report} '{scheme}://{endpoint}{path}#[1-40]'")
    };
    match at.protocol {
        Protocol::Http1 => Some(curl("http")),
        Protocol::Tls => Some(curl("https")),
        Protocol::Redis => Some(format!("redis-cli -h {ip} -p {port} --latency-history")),
        Protocol::Postgres => {
            Some(format!("psql -h {ip} -p {port} -U postgres -c '\\timing' -c 'SELECT 42'"))
        }
        _ => None,
    }
}
