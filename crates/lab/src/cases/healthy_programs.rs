//! Real software without any fault.

use std::fs;
use std::net::SocketAddr;
use std::thread;
use std::time::Duration;

use super::programs::{client, nginx, nginx_tls, postgres, redis, script, serve, version};
use crate::case::{Case, Observed, Ran, plain_link};
use crate::client::{Load, Loaded, Request, run};
use crate::describe::Layer;
use crate::error::{Doing, LabError};
use crate::labels::{Class, Variant};
use crate::params::Params;
use crate::rng::Rng;
use crate::stage::Stage;
use crate::sys;

const fn healthy(
    name: &'static str,
    summary: &'static str,
    params: fn(&mut Rng) -> Params,
    act: fn(&mut Stage, &Params, Variant) -> Result<Observed, LabError>,
) -> Case {
    Case {
        name,
        layer: Layer::Application,
        summary,
        class: Class::None,
        knob: None,
        params,
        link: plain_link,
        act,
        truth: |_, _: &Ran| Ok(Vec::new()),
    }
}

/// Redis with several commands per write.
pub const REDIS: Case = healthy(
    "healthy_redis",
    "Redis commands, one or several per write",
    |rng| {
        base(rng, &[0, 0, 1, 15])
            .with("pipeline", rng.pick(&[1, 4, 20]))
            .with("connections", rng.between(1, 3))
            .with("value_bytes", rng.between(1, 4_000))
    },
    |stage, p, _| {
        let server = SocketAddr::new(stage.server_addr, 6379);
        let _process = redis(stage, server)?;
        stage.start_captures()?;
        let fixed = [("split", 0), ("nodelay", 1)];
        let loaded = client(stage, "redis", server, &settings(p, &fixed)?)?;
        Ok(observed(stage, loaded, server, &[("redis-server", "--version")]))
    },
);

/// `psql` with some statements.
pub const PSQL: Case = healthy(
    "healthy_psql",
    "psql runs some statements against PostgreSQL",
    |rng| base(rng, &[0, 1, 10]).with("value_bytes", rng.between(1, 20_000)),
    |stage, p, _| {
        let server = SocketAddr::new(stage.server_addr, 5432);
        let (mut process, version) = postgres(stage, server)?;
        stage.start_captures()?;
        let loaded = psql(stage, p, server);
        process.stop();
        let mut observed = Observed::new(loaded?, server);
        observed.versions.push(("postgres".to_owned(), version));
        Ok(observed)
    },
);

/// PostgreSQL's extended protocol with one write per query.
pub const POSTGRES: Case = healthy(
    "healthy_postgres",
    "prepared queries against PostgreSQL, each in one write",
    |rng| {
        base(rng, &[0, 1, 10])
            .with("connections", rng.between(1, 2))
            .with("value_bytes", rng.between(1, 20_000))
    },
    |stage, p, _| {
        let server = SocketAddr::new(stage.server_addr, 5432);
        let (mut process, version) = postgres(stage, server)?;
        stage.start_captures()?;
        let fixed = [("split", 0), ("nodelay", 1)];
        let loaded = client(stage, "postgres", server, &settings(p, &fixed)?);
        process.stop();
        let mut observed = Observed::new(loaded?, server);
        observed.versions.push(("postgres".to_owned(), version));
        Ok(observed)
    },
);

/// Downloads over TLS on keep-alive connections.
pub const TLS: Case = healthy(
    "healthy_tls",
    "downloads over TLS from nginx, keep-alive",
    |rng| {
        base(rng, &[0, 2, 20, 50])
            .with("rate_bps", 100_000_000)
            .with("requests", rng.between(3, 8))
            .with("tls_version", rng.pick(&[12, 13]))
            .with("connections", rng.between(1, 2))
            .with("response_bytes", rng.pick(&[3_000, 100_000, 700_000]))
            .with("resume", 0)
            .with("new_connections", 0)
    },
    |stage, p, _| {
        let server = SocketAddr::new(stage.server_addr, 8443);
        file(stage, p.get("response_bytes")?)?;
        let _nginx = nginx_tls(stage, "ssl_protocols TLSv1.2 TLSv1.3;", server)?;
        stage.start_captures()?;
        let loaded = client(stage, "tls", server, &settings(p, &[])?)?;
        Ok(observed(stage, loaded, server, &[("nginx", "-v"), ("openssl", "version")]))
    },
);

/// nginx with a correct configuration.
pub const NGINX: Case = healthy(
    "healthy_nginx",
    "nginx with its defaults: sendfile, header and file apart, TCP_NODELAY",
    |rng| {
        base(rng, &[0, 0, 2, 26])
            .with("connections", rng.between(1, 6))
            .with("response_bytes", rng.pick(&[90, 1_200, 9_000, 120_000]))
            .with("new_connections", rng.pick(&[0, 0, 1]))
            .with("tcp_nopush", rng.pick(&[0, 1]))
    },
    |stage, p, _| {
        let server = SocketAddr::new(stage.server_addr, 8080);
        file(stage, p.get("response_bytes")?)?;
        let nopush = if p.get("tcp_nopush")? > 0 { "on" } else { "off" };
        let at = stage.dir().display();
        let http =
            format!("sendfile on;\ntcp_nopush {nopush};\nserver {{ listen {server}; root {at}; }}");
        let _nginx = nginx(stage, &http, server)?;
        stage.start_captures()?;
        let load = Load {
            connections: p.get("connections")?,
            new_connections: p.get("new_connections")? > 0,
            spacing: p.duration("spacing_ns")?,
            path: "/file.bin".to_owned(),
            ..Load::get(server, p.get("requests")?)
        };
        let loaded = run(&stage.client, &load)?;
        Ok(observed(stage, loaded, server, &[("nginx", "-v")]))
    },
);

/// HTTP pipelining.
pub const PIPELINING: Case = healthy(
    "healthy_pipelining",
    "several HTTP requests in one write",
    |rng| {
        base(rng, &[0, 3, 20])
            .with("pipeline", rng.between(2, 8))
            .with("value_bytes", rng.between(50, 3_000))
    },
    |stage, p, _| {
        let server = SocketAddr::new(stage.server_addr, 8080);
        file(stage, p.get("value_bytes")?)?;
        let at = stage.dir().display();
        let http = format!("server {{ listen {server}; root {at}; }}");
        let _nginx = nginx(stage, &http, server)?;
        stage.start_captures()?;
        let loaded = client(stage, "pipeline", server, &settings(p, &[])?)?;
        Ok(observed(stage, loaded, server, &[("nginx", "-v")]))
    },
);

/// Messages in both directions, as in a remote shell or over a WebSocket.
pub const CHAT: Case = healthy(
    "healthy_chat",
    "small messages in both directions at once",
    |rng| {
        base(rng, &[0, 5, 40])
            .with("spacing_ns", rng.pick(&[10, 50, 120]) * 1_000_000)
            .with("connections", rng.between(1, 3))
            .with("value_bytes", rng.pick(&[4, 90, 1_500]))
            .with("talk_bytes", rng.pick(&[10, 200, 3_000]))
    },
    |stage, p, _| {
        let server = SocketAddr::new(stage.server_addr, 2022);
        let path = script(stage, "chat.py", include_str!("programs/chat.py"))?;
        let mut command = stage.server.command("python3");
        command.arg(path).arg(server.ip().to_string()).arg("2022");
        command.arg(p.get("talk_bytes")?.to_string());
        let _process = serve(stage, command, "python3", server)?;
        stage.start_captures()?;
        let loaded = client(stage, "chat", server, &settings(p, &[])?)?;
        Ok(observed(stage, loaded, server, &[("python3", "--version")]))
    },
);

fn base(rng: &mut Rng, rtt_ms: &[u64]) -> Params {
    Params::default()
        .with("rtt_ns", rng.pick(rtt_ms) * 1_000_000)
        .with("rate_bps", 0)
        .with("requests", rng.between(20, 40))
        .with("spacing_ns", rng.pick(&[0, 0, 2_000_000, 45_000_000]))
}

/// Returns all parameters of the case, which `client.py` knows by the same names, and some fixed
/// ones.
fn settings<'a>(
    p: &'a Params,
    fixed: &[(&'static str, u64)],
) -> Result<Vec<(&'a str, u64)>, LabError> {
    Ok(p.iter().chain(fixed.iter().copied()).collect())
}

fn observed(
    stage: &Stage,
    loaded: Loaded,
    server: SocketAddr,
    programs: &[(&str, &str)],
) -> Observed {
    let mut observed = Observed::new(loaded, server);
    for (program, arg) in programs {
        let version = version(&stage.server, program, arg);
        observed.versions.push(((*program).to_owned(), version));
    }
    observed
}

fn file(stage: &Stage, bytes: u64) -> Result<(), LabError> {
    let body = vec![b'f'; bytes as usize];
    fs::write(stage.dir().join("file.bin"), body).doing("write file.bin")
}

/// Runs one `psql` after the other, each with a few statements on its own connection.
fn psql(stage: &Stage, p: &Params, server: SocketAddr) -> Result<Loaded, LabError> {
    let bytes = p.get("value_bytes")?;
    let mut loaded = Loaded::default();
    for number in 0..p.get("requests")?.min(8) {
        thread::sleep(Duration::from_nanos(p.get("spacing_ns")?));
        let mut command = stage.client.command("psql");
        let (address, port) = (server.ip().to_string(), server.port().to_string());
        command.args(["-X", "-q", "-A", "-t", "-U", "postgres", "-d", "postgres"]);
        command.args(["-h", &address, "-p", &port]);
        command.args(["-c", "select host(inet_client_addr()), inet_client_port()"]);
        for statement in 0..3 + number % 3 {
            command.arg("-c");
            command.arg(format!("select {statement}, repeat('p', {bytes})"));
        }
        let start_ns = sys::realtime_ns();
        let output = command.output().doing("run psql")?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        if !output.status.success() {
            let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
            return Err(LabError::Command { command: "psql".to_owned(), stderr });
        }
        let who = text.lines().next().and_then(|l| l.split_once('|'));
        let (host, port) = who.unwrap_or_default();
        let host = host.parse().map(|ip| SocketAddr::new(ip, port.parse().unwrap_or(0)));
        loaded.requests.push(Request {
            start_ns,
            end_ns: sys::realtime_ns(),
            server_endpoint: server.to_string(),
            client_endpoint: host.map(|h| h.to_string()).unwrap_or_default(),
            response_bytes: text.len() as u64,
            ..Default::default()
        });
    }
    Ok(loaded)
}
