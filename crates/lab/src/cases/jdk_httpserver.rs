//! The JDK's `com.sun.net.httpserver`: older releases write header and body separately, and leave
//! Nagle's algorithm on unless `-Dsun.net.httpserver.nodelay=true`.

use std::net::SocketAddr;

use super::programs::{jdk, script, serve, version};
use crate::case::{Case, Observed, Ran, plain_link};
use crate::client::{self, Load};
use crate::describe::{Knob, Layer, Treat};
use crate::error::LabError;
use crate::labels::{Cause, Class, Role, Variant};
use crate::params::Params;
use crate::rng::Rng;
use crate::stage::Stage;

/// JDK 17, which is affected.
pub const JDK_17: Case = Case {
    name: "jdk_httpserver",
    layer: Layer::Socket,
    summary: "the HTTP server of JDK 17 sends header and body apart: 40 ms per response",
    class: Class::Fault,
    knob: Some(Knob {
        at: "the JVM's options",
        faulty: "sun.net.httpserver.nodelay left at false",
        healthy: "-Dsun.net.httpserver.nodelay=true",
        treat: &[Treat::at_server(&["nodelay", "--port", "8080", "--side", "server"])],
    }),
    params,
    link: plain_link,
    act: |stage, p, variant| act(stage, p, 17, variant == Variant::Healthy),
    truth: |_, ran| {
        let endpoint = Some(ran.observed.server.to_string());
        Ok(vec![Cause::by_twin("nagle_delayed_ack", Role::Server, endpoint)])
    },
};

/// JDK 25 with the same settings, which is not affected.
pub const JDK_25: Case = Case {
    name: "jdk_httpserver_25",
    layer: Layer::Socket,
    summary: "the HTTP server of JDK 25 with the same settings: no fault",
    class: Class::None,
    knob: None,
    params,
    link: plain_link,
    act: |stage, p, _| act(stage, p, 25, false),
    truth: |_, _: &Ran| Ok(Vec::new()),
};

fn params(rng: &mut Rng) -> Params {
    Params::default()
        .with("rtt_ns", rng.pick(&[100_000, 2_000_000, 26_000_000]))
        .with("rate_bps", 0)
        .with("requests", rng.between(30, 60))
        .with("connections", rng.pick(&[1, 1, 3]))
        .with("body_bytes", 100)
        .with("response_bytes", rng.pick(&[100, 100, 500, 1_200]))
}

fn act(stage: &mut Stage, p: &Params, major: u64, nodelay: bool) -> Result<Observed, LabError> {
    let server = SocketAddr::new(stage.server_addr, 8080);
    let path = script(stage, "Echo.java", include_str!("programs/Echo.java"))?;
    let java = jdk(major)?.join("bin/java");
    let mut command = stage.server.command(&java.to_string_lossy());
    command.args(["-Xmx64m", "-Xshare:auto"]);
    if nodelay {
        command.arg("-Dsun.net.httpserver.nodelay=true");
    }
    command.arg(path).arg(server.ip().to_string()).arg("8080");
    command.arg(p.get("response_bytes")?.to_string());
    let package = format!("openjdk-{major}-jdk-headless");
    let _process = serve(stage, command, &package, server)?;
    let load = |connections, requests| -> Result<Load, LabError> {
        Ok(Load { connections, ..Load::post(server, requests, p.get("body_bytes")?) })
    };
    // A virtual machine that is still compiling would be slow for reasons that no label names.
    client::run(&stage.client, &load(4, 15)?)?;
    stage.start_captures()?;
    let loaded = client::run(&stage.client, &load(p.get("connections")?, p.get("requests")?)?)?;
    let mut observed = Observed::new(loaded, server);
    let version = version(&stage.server, java, "--version");
    observed.versions.push(("java".to_owned(), version));
    Ok(observed)
}
