//! An application that asks its database for one row after the other (N+1 queries).

use std::fs;
use std::net::SocketAddr;

use super::programs;
use crate::case::{Case, Observed, Ran, plain_link};
use crate::client::{self, Load};
use crate::describe::{Knob, Layer};
use crate::error::{Doing, LabError};
use crate::labels::{Cause, Class, Role, Variant};
use crate::netns::{Process, run};
use crate::params::Params;
use crate::stage::Stage;

/// The database listens at the application's own host, so that the server's capture of all interfaces
/// shows both connections.
const DATABASE: SocketAddr =
    SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 5432);

pub const CASE: Case = Case {
    name: "queries_in_a_row",
    layer: Layer::Application,
    summary: "an application asks PostgreSQL for one row after the other",
    class: Class::Cost,
    knob: Some(Knob {
        at: "the application",
        faulty: "{queries} queries for each request",
        healthy: "one query for each request",
        treat: &[],
    }),
    params: |rng| {
        Params::default()
            .with("rtt_ns", rng.pick(&[2_000_000, 10_000_000, 26_000_000]))
            .with("rate_bps", 0)
            .with("requests", rng.between(12, 24))
            .with("connections", rng.pick(&[1, 1, 3]))
            .with("spacing_ns", rng.between(20, 80) * 1_000_000)
            .with("queries", rng.between(60, 150))
            .with("query_ns", rng.between(1, 3) * 1_000_000)
            .with("any_interface", 1)
    },
    link: plain_link,
    act,
    truth,
};

/// Speaks the protocol of PostgreSQL itself: a start-up message, then simple queries, each answered by
/// messages of which the last is `ReadyForQuery`.
const APPLICATION: &str = "
import http.server, socket, struct, sys
host, port, queries, seconds = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), float(sys.argv[4])
def until_ready(stream):
    while True:
        kind, length = struct.unpack('!ci', stream.read(5))
        stream.read(length - 4)
        if kind == b'Z': return
class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = 'HTTP/1.1'
    wbufsize = -1  # header and body in one write
    def setup(self):
        super().setup()
        self.database = socket.create_connection(('127.0.0.1', 5432))
        self.answers = self.database.makefile('rb')
        words = b'user\\0postgres\\0database\\0postgres\\0\\0'
        self.database.sendall(struct.pack('!ii', 8 + len(words), 196608) + words)
        until_ready(self.answers)
    def do_GET(self):
        for row in range(queries):
            query = b'SELECT pg_sleep(%f), %d\\0' % (seconds, row)
            self.database.sendall(b'Q' + struct.pack('!i', 4 + len(query)) + query)
            until_ready(self.answers)
        body = b'x' * 500
        self.send_response(200)
        self.send_header('Content-Length', str(len(body)))
        self.end_headers()
        self.wfile.write(body)
    def log_message(self, *words): pass
class Server(http.server.ThreadingHTTPServer):
    address_family = socket.AF_INET6 if ':' in host else socket.AF_INET
    request_queue_size = 100
Server((host, port), Handler).serve_forever()
";

fn act(stage: &mut Stage, p: &Params, variant: Variant) -> Result<Observed, LabError> {
    let server = SocketAddr::new(stage.server_addr, 8080);
    let (mut postgres, postgres_version) = programs::postgres(stage, DATABASE)?;
    let path = stage.dir().join("application");
    fs::write(&path, APPLICATION).doing("write the application's script")?;
    let queries = match variant {
        Variant::Faulty => p.get("queries")?,
        Variant::Healthy => 1,
    };
    let mut command = stage.server.command("python3");
    command.arg(&path).arg(server.ip().to_string()).arg(server.port().to_string());
    command.arg(queries.to_string()).arg((p.get("query_ns")? as f64 / 1e9).to_string());
    let _application = Process::start(command, "python3")?;
    stage.wait_for_listener(server)?;
    stage.start_captures()?;
    let load = Load {
        connections: p.get("connections")?,
        spacing: p.duration("spacing_ns")?,
        path: "/api/items".to_owned(),
        ..Load::get(server, p.get("requests")?)
    };
    let loaded = client::run(&stage.client, &load);
    postgres.stop();
    let mut observed = Observed::new(loaded?, server);
    observed.versions.push(("postgres".to_owned(), postgres_version));
    let version = run("python3", &["--version"]).unwrap_or_default();
    observed.versions.push(("python3".to_owned(), version.trim().to_owned()));
    Ok(observed)
}

fn truth(_: &Params, ran: &Ran) -> Result<Vec<Cause>, LabError> {
    if let Some(failed) = ran.observed.loaded.requests.iter().find_map(|r| r.error.clone()) {
        return Err(LabError::NotReproduced(failed));
    }
    let cause = Cause::by_twin("upstream_wait", Role::Server, Some(DATABASE.to_string()));
    // The client's capture has no connection to the database.
    Ok(vec![cause.unseen_at(&["client"]).looks_like(&[("server_think", Role::Server)])])
}
