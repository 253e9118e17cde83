//! nginx with `tcp_nodelay off`: header by one system call, file by another.

use std::fs;
use std::net::SocketAddr;

use crate::case::{Case, Observed, Ran, plain_link};
use crate::client::{self, Load};
use crate::error::{Doing, LabError};
use crate::labels::{Cause, Class, Role, Variant};
use crate::netns::Process;
use crate::params::Params;
use crate::rng::Rng;
use crate::stage::Stage;

/// `sendfile on` without `tcp_nopush` sends the header and the file's first bytes apart; with
/// `tcp_nodelay off` the second waits for the ACK of the first.
pub const CASE: Case = Case {
    name: "nginx_nodelay_off",
    layer: "application",
    summary: "nginx sends header and body apart with tcp_nodelay off: 40 ms per response",
    class: Class::Fault,
    params,
    link: plain_link,
    act,
    truth,
};

fn params(rng: &mut Rng) -> Params {
    Params::default()
        .with(
            "rtt_ns",
            rng.pick(&[0, 0, 500_000, 2_000_000, 10_000_000, 26_000_000]),
        )
        .with("rate_bps", 0)
        .with("requests", rng.between(25, 50))
        .with("connections", rng.pick(&[1, 1, 1, 4]))
        .with("spacing_ns", rng.pick(&[0, 0, 1_000_000, 5_000_000]))
        .with("file_bytes", rng.between(100, 1_300))
}

fn act(stage: &mut Stage, p: &Params, variant: Variant) -> Result<Observed, LabError> {
    let server = SocketAddr::new(stage.server_addr, 8080);
    let nodelay = if variant == Variant::Faulty {
        "off"
    } else {
        "on"
    };
    let _nginx = start_nginx(stage, server, nodelay, p.get("file_bytes")?)?;
    stage.start_captures()?;
    let load = Load {
        connections: p.get("connections")?,
        spacing: p.duration("spacing_ns")?,
        path: "/file.bin".to_owned(),
        ..Load::get(server, p.get("requests")?)
    };
    let loaded = client::run(&stage.client, &load)?;
    let mut observed = Observed::new(loaded, server);
    observed
        .versions
        .push(("nginx".to_owned(), nginx_version(stage)));
    Ok(observed)
}

fn nginx_version(stage: &Stage) -> String {
    // nginx writes its version to standard error.
    let out = stage.server.command("nginx").arg("-v").output();
    let text = out.map(|o| String::from_utf8_lossy(&o.stderr).trim().to_owned());
    text.unwrap_or_default()
        .trim_start_matches("nginx version: ")
        .to_owned()
}

fn start_nginx(
    stage: &Stage,
    server: SocketAddr,
    nodelay: &str,
    file_bytes: u64,
) -> Result<Process, LabError> {
    let dir = stage.dir();
    let at = dir.display();
    fs::write(dir.join("file.bin"), vec![b'n'; file_bytes as usize]).doing("write file.bin")?;
    let temporary: String = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
        .map(|kind| format!("{kind}_temp_path {at}/{kind};\n"))
        .concat();
    let configuration = format!(
        "daemon off;\nmaster_process off;\npid {at}/nginx.pid;\nerror_log {at}/error.log;\n\
         events {{ worker_connections 1024; }}\n\
         http {{\naccess_log off;\n{temporary}\
         sendfile on;\ntcp_nopush off;\ntcp_nodelay {nodelay};\nkeepalive_requests 100000;\n\
         server {{ listen {server}; root {at}; }}\n}}\n"
    );
    fs::write(dir.join("nginx.conf"), configuration).doing("write nginx.conf")?;
    let mut command = stage.server.command("nginx");
    command
        .arg("-c")
        .arg(dir.join("nginx.conf"))
        .arg("-e")
        .arg(dir.join("error.log"));
    let nginx = Process::start(command, "nginx")?;
    stage.wait_for_listener(server)?;
    Ok(nginx)
}

fn truth(_: &Params, ran: &Ran) -> Result<Vec<Cause>, LabError> {
    let endpoint = Some(ran.observed.server.to_string());
    Ok(vec![Cause::by_twin(
        "nagle_delayed_ack",
        Role::Server,
        endpoint,
    )])
}
