//! Servers in several languages that write header and body separately without `TCP_NODELAY`.

use std::net::SocketAddr;
use std::process::Command;

use super::programs::{jdk, script, serve, version};
use crate::case::{Case, Observed, Ran, plain_link};
use crate::client::{self, Load};
use crate::describe::{Knob, Layer, Treat};
use crate::error::LabError;
use crate::labels::{Cause, Class, Role, Variant};
use crate::params::Params;
use crate::rng::Rng;
use crate::server::{Behaviour, Server};
use crate::stage::Stage;

const NODELAY: &[Treat] = &[Treat::at_server(&["nodelay", "--port", "8080", "--side", "server"])];

const fn case(
    name: &'static str,
    summary: &'static str,
    act: fn(&mut Stage, &Params, Variant) -> Result<Observed, LabError>,
) -> Case {
    Case {
        name,
        layer: Layer::Socket,
        summary,
        class: Class::Fault,
        knob: Some(Knob {
            at: "the server's socket",
            faulty: "TCP_NODELAY not set",
            healthy: "TCP_NODELAY set",
            treat: NODELAY,
        }),
        params,
        link: plain_link,
        act,
        truth,
    }
}

/// Python's `http.server` with HTTP/1.1: its output is not buffered.
pub const PYTHON: Case = case(
    "nagle_python",
    "Python's http.server writes header and body apart, on keep-alive connections",
    |stage, p, v| {
        let path = script(stage, "split.py", include_str!("programs/split.py"))?;
        let mut command = stage.server.command("python3");
        command.arg(path);
        real(stage, p, v, command, ("python3", ("python3", "--version")))
    },
);

/// Node's `http` with the header flushed early and `noDelay: false`.
pub const NODE: Case = case(
    "nagle_node",
    "a Node server flushes the header first, with noDelay: false",
    |stage, p, v| {
        let path = script(stage, "split.js", include_str!("programs/split.js"))?;
        let mut command = stage.server.command("node");
        command.arg(path);
        real(stage, p, v, command, ("nodejs", ("node", "--version")))
    },
);

/// Java's plain sockets: two calls of `OutputStream.write`.
pub const JAVA: Case = case(
    "nagle_java",
    "a Java server on plain sockets writes header and body apart",
    |stage, p, v| {
        let path = script(stage, "Split.java", include_str!("programs/Split.java"))?;
        let java = jdk(17)?.join("bin/java");
        let java = java.to_string_lossy();
        let mut command = stage.server.command(&java);
        command.args(["-Xmx64m", "-Xshare:auto"]).arg(path);
        real(stage, p, v, command, ("openjdk-17-jdk-headless", (&java, "--version")))
    },
);

/// C: two calls of `write`.
pub const C: Case = case("nagle_c", "a C server writes header and body apart", |stage, p, v| {
    let source = script(stage, "split.c", include_str!("programs/split.c"))?;
    let program = stage.dir().join("split");
    let (source, output) = (source.to_string_lossy(), program.to_string_lossy());
    stage.server.run("gcc", &["-O1", "-o", &output, &source])?;
    let command = stage.server.command(&output);
    real(stage, p, v, command, ("gcc", ("gcc", "--version")))
});

/// Go with `SetNoDelay(false)`; the twin uses Go's default.
pub const GO: Case = case(
    "nagle_go",
    "a Go server with SetNoDelay(false) writes header and body apart",
    |stage, p, v| {
        let source = script(stage, "split.go", include_str!("programs/split.go"))?;
        let program = stage.dir().join("split");
        let (source, output) = (source.to_string_lossy(), program.to_string_lossy());
        stage.server.run("go", &["build", "-o", &output, &source])?;
        let command = stage.server.command(&output);
        real(stage, p, v, command, ("golang-go", ("go", "version")))
    },
);

/// The lab's own server, which also writes twice.
pub const OWN: Case = case(
    "nagle_server",
    "the lab's server writes header and body apart without TCP_NODELAY",
    |stage, p, v| {
        let behaviour = Behaviour {
            split: true,
            nodelay: v == Variant::Healthy,
            ..Behaviour::healthy(p.get("response_bytes")?)
        };
        let server = Server::start(&stage.server, stage.server_addr, 8080, behaviour)?;
        stage.start_captures()?;
        let loaded = client::run(&stage.client, &load(server.endpoint(), p)?)?;
        Ok(Observed::with_server(loaded, &server))
    },
);

fn params(rng: &mut Rng) -> Params {
    Params::default()
        .with(
            "rtt_ns",
            rng.pick(&[0, 0, 100_000, 1_000_000, 5_000_000, 15_000_000, 30_000_000, 60_000_000]),
        )
        .with("rate_bps", rng.pick(&[0, 0, 100_000_000]))
        .with("requests", rng.between(25, 45))
        .with("connections", rng.pick(&[1, 1, 2, 4]))
        .with("spacing_ns", rng.pick(&[0, 0, 1, 7, 20]) * 1_000_000)
        .with("response_bytes", rng.between(20, 1_400))
        .with("snaplen_bytes", rng.pick(&[0, 0, 96]))
        .with("any_interface", rng.pick(&[0, 0, 0, 1]))
        .with("ipv6", rng.pick(&[0, 0, 1]))
}

fn load(server: SocketAddr, p: &Params) -> Result<Load, LabError> {
    Ok(Load {
        connections: p.get("connections")?,
        spacing: p.duration("spacing_ns")?,
        ..Load::get(server, p.get("requests")?)
    })
}

/// Starts `command ADDRESS PORT BYTES NODELAY`, warms it up and runs the load. The last argument is
/// the package to install and the command that prints the version of the language.
fn real(
    stage: &mut Stage,
    p: &Params,
    variant: Variant,
    mut command: Command,
    (package, compiler): (&str, (&str, &str)),
) -> Result<Observed, LabError> {
    let server = SocketAddr::new(stage.server_addr, 8080);
    let nodelay = if variant == Variant::Healthy { "1" } else { "0" };
    let bytes = p.get("response_bytes")?.to_string();
    command.args([&server.ip().to_string(), "8080", &bytes, nodelay]);
    let _process = serve(stage, command, package, server)?;
    // A runtime that is still compiling would be slow for reasons that no label names.
    let warm_up = Load { connections: 3, ..Load::get(server, 10) };
    client::run(&stage.client, &warm_up)?;
    stage.start_captures()?;
    let loaded = client::run(&stage.client, &load(server, p)?)?;
    let mut observed = Observed::new(loaded, server);
    let version = version(&stage.server, compiler.0, compiler.1);
    observed.versions.push((package.to_owned(), version));
    Ok(observed)
}

fn truth(_: &Params, ran: &Ran) -> Result<Vec<Cause>, LabError> {
    let endpoint = Some(ran.observed.server.to_string());
    Ok(vec![Cause::by_twin("nagle_delayed_ack", Role::Server, endpoint)])
}
