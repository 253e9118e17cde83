//! nginx with `tcp_nodelay off`, which sends header and file by separate system calls.

use std::fs;
use std::net::SocketAddr;

use super::programs;
use crate::case::{Case, Observed, Ran, plain_link};
use crate::client::{self, Load};
use crate::describe::{Knob, Layer, Treat};
use crate::error::{Doing, LabError};
use crate::labels::{Cause, Class, Role, Variant};
use crate::params::Params;
use crate::rng::Rng;
use crate::stage::Stage;

/// `sendfile on` without `tcp_nopush` sends the header and the first bytes of the file separately;
/// with `tcp_nodelay off` the second segment waits for the ACK of the first.
pub const CASE: Case = Case {
    name: "nginx_nodelay_off",
    layer: Layer::Socket,
    summary: "nginx sends header and body apart with tcp_nodelay off: 40 ms per response",
    class: Class::Fault,
    knob: Some(Knob {
        at: "nginx.conf",
        faulty: "tcp_nodelay off;",
        healthy: "tcp_nodelay on;",
        treat: &[Treat::at_server(&["nodelay", "--port", "8080", "--side", "server"])],
    }),
    params,
    link: plain_link,
    act,
    truth,
};

fn params(rng: &mut Rng) -> Params {
    Params::default()
        .with("rtt_ns", rng.pick(&[0, 0, 500_000, 2_000_000, 10_000_000, 26_000_000]))
        .with("rate_bps", 0)
        .with("requests", rng.between(25, 50))
        .with("connections", rng.pick(&[1, 1, 1, 4]))
        .with("spacing_ns", rng.pick(&[0, 0, 1_000_000, 5_000_000]))
        .with("file_bytes", rng.between(100, 1_300))
}

fn act(stage: &mut Stage, p: &Params, variant: Variant) -> Result<Observed, LabError> {
    let server = SocketAddr::new(stage.server_addr, 8080);
    let nodelay = if variant == Variant::Faulty { "off" } else { "on" };
    let body = vec![b'n'; p.get("file_bytes")? as usize];
    fs::write(stage.dir().join("file.bin"), body).doing("write file.bin")?;
    let directives = format!(
        "sendfile on;\ntcp_nopush off;\ntcp_nodelay {nodelay};\n\
         server {{ listen {server}; root {}; }}\n",
        stage.dir().display()
    );
    let _nginx = programs::nginx(stage, &directives, server)?;
    stage.start_captures()?;
    let load = Load {
        connections: p.get("connections")?,
        spacing: p.duration("spacing_ns")?,
        path: "/file.bin".to_owned(),
        ..Load::get(server, p.get("requests")?)
    };
    let loaded = client::run(&stage.client, &load)?;
    let mut observed = Observed::new(loaded, server);
    observed.versions.push(programs::nginx_version(stage));
    Ok(observed)
}

fn truth(_: &Params, ran: &Ran) -> Result<Vec<Cause>, LabError> {
    let endpoint = Some(ran.observed.server.to_string());
    Ok(vec![Cause::by_twin("nagle_delayed_ack", Role::Server, endpoint)])
}
