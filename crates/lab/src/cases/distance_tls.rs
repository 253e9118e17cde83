//! Distance with TLS: full and resumed handshakes of TLS 1.2 and 1.3.

use std::fs;
use std::net::SocketAddr;

use super::distance;
use super::programs::{client, nginx_tls, version};
use crate::case::{Case, Observed, Ran};
use crate::describe::{Knob, Layer};
use crate::error::{Doing, LabError};
use crate::labels::{Cause, Class, Role};
use crate::params::Params;
use crate::stage::Stage;

/// A TLS connection per request: two to four round trips each.
pub const CASE: Case = Case {
    name: "distance_tls",
    layer: Layer::Network,
    summary: "far away, and a TLS connection per request: handshakes dominate",
    class: Class::Cost,
    knob: Some(Knob {
        at: "the path",
        faulty: "round trip {rtt_ns}",
        healthy: "a server nearby: round trip {near_rtt_ns}",
        treat: &[],
    }),
    params: |rng| {
        Params::default()
            .with("rtt_ns", rng.between(80, 180) * 1_000_000)
            .with("near_rtt_ns", 1_000_000)
            .with("requests", rng.between(5, 9))
            .with("tls_version", rng.pick(&[12, 13]))
            .with("resume", rng.pick(&[0, 1]))
            .with("response_bytes", rng.between(200, 6_000))
    },
    link: distance::link,
    act: |stage, p, _| act(stage, p),
    truth,
};

fn act(stage: &mut Stage, p: &Params) -> Result<Observed, LabError> {
    let server = SocketAddr::new(stage.server_addr, 8443);
    let body = vec![b't'; p.get("response_bytes")? as usize];
    fs::write(stage.dir().join("file.bin"), body).doing("write file.bin")?;
    let ssl = "ssl_protocols TLSv1.2 TLSv1.3;\nssl_session_cache shared:lab:1m;";
    let _nginx = nginx_tls(stage, ssl, server)?;
    stage.start_captures()?;
    let settings = [
        ("requests", p.get("requests")?),
        ("tls_version", p.get("tls_version")?),
        ("resume", p.get("resume")?),
        ("spacing_ns", 0),
        ("new_connections", 1),
    ];
    let loaded = client(stage, "tls", server, &settings)?;
    let mut observed = Observed::new(loaded, server);
    for (program, arg) in [("nginx", "-v"), ("openssl", "version"), ("python3", "--version")] {
        let version = version(&stage.server, program, arg);
        observed.versions.push((program.to_owned(), version));
    }
    Ok(observed)
}

/// The client's clock separates the handshake from connect and request.
fn truth(p: &Params, ran: &Ran) -> Result<Vec<Cause>, LabError> {
    let requests = &ran.observed.loaded.requests;
    let tls_ns = requests.iter().map(|r| r.tls_ns).sum();
    let path_ns = 2 * requests.len() as u64 * p.get("rtt_ns")?;
    let server = Some(ran.observed.server.to_string());
    Ok(vec![
        Cause::by_twin("path_rtt", Role::Network, None)
            .measured(path_ns, "connects and requests times the link's round trip"),
        Cause::by_twin("tls_handshake", Role::Server, server)
            .measured(tls_ns, "client's clock around the handshakes"),
    ])
}
