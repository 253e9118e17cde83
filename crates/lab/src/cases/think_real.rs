//! Real servers with think time: nginx in front of a slow backend, PostgreSQL, Redis, Python and
//! Node.js.

use std::fs;
use std::net::SocketAddr;

use super::programs;
use super::think::THINK_MIN_MS;
use crate::case::{Case, Observed, Ran, plain_link};
use crate::client::{self, Load};
use crate::describe::{Knob, Layer};
use crate::error::{Doing, LabError};
use crate::labels::{Cause, Class, Role, Variant};
use crate::netns::{Process, run};
use crate::params::Params;
use crate::rng::Rng;
use crate::server::{Behaviour, Server};
use crate::stage::Stage;
use crate::talk;

/// nginx forwards requests to a backend with think time.
pub const NGINX: Case = Case {
    name: "nginx_slow_backend",
    layer: Layer::Application,
    summary: "nginx proxies to a slow backend",
    class: Class::Cost,
    knob: Some(Knob {
        at: "the backend",
        faulty: "takes {think_ns} for a response",
        healthy: "answers at once",
        treat: &[],
    }),
    params: |rng| {
        params(rng)
            .with("response_bytes", rng.between(100, 8_000))
            // The backend uses loopback, which is not part of the captures.
            .with("any_interface", 0)
    },
    link: plain_link,
    act: nginx_act,
    truth,
};

/// A query that sleeps in PostgreSQL.
pub const POSTGRES: Case = Case {
    name: "postgres_sleep",
    summary: "PostgreSQL takes long for a query",
    knob: Some(Knob {
        at: "the query",
        faulty: "SELECT pg_sleep({think_ns})",
        healthy: "SELECT pg_sleep(0)",
        treat: &[],
    }),
    params,
    act: postgres_act,
    ..NGINX
};

/// A Redis command that waits for replicas (WAIT), or blocks the whole server (DEBUG SLEEP, a busy
/// script). A command that waits for others' data (BLPOP) does not count: its client wants to wait.
pub const REDIS: Case = Case {
    name: "redis_blocking",
    summary: "Redis takes long for a command",
    knob: Some(Knob {
        at: "the command",
        faulty: "blocks for {think_ns}",
        healthy: "returns at once",
        treat: &[],
    }),
    params: |rng| params(rng).with("command", rng.between(0, 2)),
    act: redis_act,
    ..NGINX
};

/// A handler that sleeps, in Python's http.server or in Node.js.
pub const SCRIPT: Case = Case {
    name: "script_server_think",
    summary: "a web server in Python or Node.js takes long for a request",
    knob: Some(Knob {
        at: "the server's handler",
        faulty: "sleeps {think_ns}",
        healthy: "answers at once",
        treat: &[],
    }),
    params: |rng| params(rng).with("node", rng.between(0, 1)),
    act: script_act,
    ..NGINX
};

fn params(rng: &mut Rng) -> Params {
    Params::default()
        .with("rtt_ns", rng.pick(&[0, 0, 2_000_000, 10_000_000, 26_000_000]))
        .with("rate_bps", 0)
        .with("requests", rng.between(15, 30))
        .with("connections", rng.pick(&[1, 1, 3]))
        .with("spacing_ns", rng.pick(&[0, 5_000_000]))
        .with("think_ns", rng.between(THINK_MIN_MS, 150) * 1_000_000)
}

fn think_seconds(p: &Params, variant: Variant) -> Result<f64, LabError> {
    Ok(match variant {
        Variant::Faulty => p.get("think_ns")? as f64 / 1e9,
        Variant::Healthy => 0.0,
    })
}

fn truth(_: &Params, ran: &Ran) -> Result<Vec<Cause>, LabError> {
    if let Some(failed) = ran.observed.loaded.requests.iter().find_map(|r| r.error.clone()) {
        return Err(LabError::NotReproduced(failed));
    }
    let endpoint = Some(ran.observed.server.to_string());
    Ok(vec![Cause::by_twin("server_think", Role::Server, endpoint)])
}

fn load(stage: &mut Stage, p: &Params, server: SocketAddr) -> Result<Observed, LabError> {
    stage.start_captures()?;
    let load = Load {
        connections: p.get("connections")?,
        spacing: p.duration("spacing_ns")?,
        path: "/api/items/7".to_owned(),
        ..Load::get(server, p.get("requests")?)
    };
    Ok(Observed::new(client::run(&stage.client, &load)?, server))
}

fn nginx_act(stage: &mut Stage, p: &Params, variant: Variant) -> Result<Observed, LabError> {
    let server = SocketAddr::new(stage.server_addr, 8080);
    let mut behaviour = Behaviour::healthy(p.get("response_bytes")?);
    if variant == Variant::Faulty {
        behaviour.think = p.duration("think_ns")?;
    }
    let backend = Server::start(&stage.server, [127, 0, 0, 1].into(), 9000, behaviour)?;
    let directives = format!(
        "server {{ listen {server}; location / {{ proxy_pass http://127.0.0.1:9000; \
         proxy_http_version 1.1; proxy_set_header Connection \"\"; }} }}\n"
    );
    let _nginx = programs::nginx(stage, &directives, server)?;
    let mut observed = load(stage, p, server)?;
    observed.slept_ns = backend.slept_ns();
    observed.versions.push(programs::nginx_version(stage));
    Ok(observed)
}

fn postgres_act(stage: &mut Stage, p: &Params, variant: Variant) -> Result<Observed, LabError> {
    let server = SocketAddr::new(stage.server_addr, 5432);
    let (mut postgres, version) = programs::postgres(stage, server)?;
    let seconds = think_seconds(p, variant)?;
    let query = talk::postgres_query(&format!("SELECT pg_sleep({seconds}), 42 AS answer"));
    let mut messages = vec![talk::postgres_startup()];
    messages.extend((0..p.get("requests")?).map(|_| query.clone()));
    let mut observed = programs::converse(stage, p, server, messages, talk::postgres_is_whole)?;
    postgres.stop();
    observed.versions.push(("postgres".to_owned(), version));
    Ok(observed)
}

fn redis_act(stage: &mut Stage, p: &Params, variant: Variant) -> Result<Observed, LabError> {
    let server = SocketAddr::new(stage.server_addr, 6379);
    let mut command = stage.server.command("redis-server");
    command.args(["--bind", &server.ip().to_string(), "--port", "6379", "--save", ""]);
    command.args(["--protected-mode", "no", "--enable-debug-command", "yes"]);
    command.current_dir(stage.dir());
    let _redis = Process::start(command, "redis-server")?;
    stage.wait_for_listener(server)?;
    let seconds = think_seconds(p, variant)?;
    let busy = format!(
        "local t = redis.call('TIME'); local from = t[1] * 1000000 + t[2]; repeat \
         t = redis.call('TIME') until t[1] * 1000000 + t[2] - from >= {}; return 1",
        seconds * 1e6
    );
    let millis = (seconds * 1e3).round().max(1.0).to_string();
    let seconds = seconds.to_string();
    let words: Vec<&str> = match (p.get("command")?, variant) {
        (0, Variant::Faulty) => vec!["WAIT", "1", &millis],
        (0, Variant::Healthy) => vec!["WAIT", "0", &millis],
        (1, _) => vec!["DEBUG", "SLEEP", &seconds],
        _ => vec!["EVAL", &busy, "0"],
    };
    let messages = (0..p.get("requests")?).map(|_| talk::redis_command(&words));
    let mut observed =
        programs::converse(stage, p, server, messages.collect(), talk::redis_is_whole)?;
    let version = run("redis-server", &["--version"]).unwrap_or_default();
    observed.versions.push(("redis".to_owned(), version.trim().to_owned()));
    Ok(observed)
}

const PYTHON: &str = "
import http.server, sys, time
class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = 'HTTP/1.1'
    wbufsize = -1  # header and body in one write
    def do_GET(self):
        time.sleep(float(sys.argv[3]))
        body = b'x' * 500
        self.send_response(200)
        self.send_header('Content-Length', str(len(body)))
        self.end_headers()
        self.wfile.write(body)
    def log_message(self, *words): pass
class Server(http.server.ThreadingHTTPServer):
    address_family = __import__('socket').AF_INET6 if ':' in sys.argv[1] else 2
    request_queue_size = 100
Server((sys.argv[1], int(sys.argv[2])), Handler).serve_forever()
";

const NODE: &str = "
const [host, port, seconds] = process.argv.slice(2);
require('http').createServer((request, response) => {
  setTimeout(() => response.end('x'.repeat(500)), seconds * 1000);
}).listen(+port, host);
";

fn script_act(stage: &mut Stage, p: &Params, variant: Variant) -> Result<Observed, LabError> {
    let server = SocketAddr::new(stage.server_addr, 8080);
    let (program, script) = match p.get("node")? {
        0 => ("python3", PYTHON),
        _ => ("node", NODE),
    };
    let path = stage.dir().join("server");
    fs::write(&path, script).doing("write the server's script")?;
    let mut command = stage.server.command(program);
    command.arg(&path).arg(server.ip().to_string()).arg(server.port().to_string());
    command.arg(think_seconds(p, variant)?.to_string());
    let _server = Process::start(command, program)?;
    stage.wait_for_listener(server)?;
    let mut observed = load(stage, p, server)?;
    let version = run(program, &["--version"]).unwrap_or_default();
    observed.versions.push((program.to_owned(), version.trim().to_owned()));
    Ok(observed)
}
