//! TLS handshakes over a distance: new ones for each request, and ones with a long certificate.

use std::fmt::Write;
use std::net::SocketAddr;

use super::programs;
use crate::case::{Case, Observed, Ran, plain_link};
use crate::curl;
use crate::describe::{Knob, Layer};
use crate::error::LabError;
use crate::labels::{Cause, Class, Role, Variant};
use crate::netns::run;
use crate::params::Params;
use crate::rng::Rng;
use crate::stage::Stage;

const PORT: u16 = 8443;

/// A full handshake for every request. The twin keeps its connection, or resumes its session with
/// --twin-resumes 1.
pub const FULL: Case = Case {
    name: "tls_full_handshakes",
    layer: Layer::Application,
    summary: "a new connection with a full TLS handshake for every request",
    class: Class::Cost,
    knob: Some(Knob {
        at: "the client",
        faulty: "a full handshake per request",
        healthy: "keeps its connection, or with --twin-resumes 1 resumes its session",
        treat: &[],
    }),
    params: |rng| {
        params(rng)
            .with("rtt_ns", rng.between(80, 160) * 1_000_000)
            .with("tls12", rng.between(0, 1))
            .with("twin_resumes", rng.between(0, 1))
    },
    link: plain_link,
    act: |stage, p, variant| {
        let mut options = vec!["--tls-max".to_owned(), "1.3".to_owned()];
        if p.get("tls12")? > 0 {
            options[1] = "1.2".to_owned();
        }
        let resumes = variant == Variant::Healthy && p.get("twin_resumes")? > 0;
        if variant == Variant::Faulty || resumes {
            options.extend(["--header", "Connection: close"].map(str::to_owned));
        }
        if variant == Variant::Faulty {
            options.push("--no-sessionid".to_owned());
        }
        act(stage, p, 0, options)
    },
    truth: far_truth,
};

/// TLS 1.2 with a certificate chain larger than the initial window of ten segments.
pub const LARGE_CHAIN: Case = Case {
    name: "tls12_large_chain",
    layer: Layer::Application,
    summary: "TLS 1.2 with a certificate longer than the initial congestion window",
    class: Class::Cost,
    knob: Some(Knob {
        at: "TLS",
        faulty: "1.2, and a certificate with {names} names",
        healthy: "1.3, and a short certificate",
        treat: &[],
    }),
    params: |rng| {
        params(rng)
            .with("rtt_ns", rng.between(40, 70) * 1_000_000)
            .with("names", rng.between(600, 1_500))
    },
    link: plain_link,
    act: |stage, p, variant| {
        let close = ["--header", "Connection: close", "--no-sessionid", "--tls-max"];
        let mut options: Vec<String> = close.map(str::to_owned).to_vec();
        let (version, names) = match variant {
            Variant::Faulty => ("1.2", p.get("names")?),
            Variant::Healthy => ("1.3", 0),
        };
        options.push(version.to_owned());
        act(stage, p, names, options)
    },
    truth,
};

fn params(rng: &mut Rng) -> Params {
    Params::default()
        .with("rtt_ns", rng.between(20, 80) * 1_000_000)
        .with("rate_bps", 0)
        .with("requests", rng.between(5, 8))
        .with("response_bytes", rng.between(100, 3_000))
}

fn act(
    stage: &mut Stage,
    p: &Params,
    names: u64,
    options: Vec<String>,
) -> Result<Observed, LabError> {
    let server = SocketAddr::new(stage.server_addr, PORT);
    make_certificate(stage, names)?;
    let at = stage.dir().display();
    let body = "t".repeat(p.get("response_bytes")? as usize);
    let directives = format!(
        "server {{ listen {server} ssl; ssl_certificate {at}/certificate; \
         ssl_certificate_key {at}/key; ssl_protocols TLSv1.2 TLSv1.3; \
         ssl_session_cache shared:lab:1m; location / {{ return 200 {body}; }} }}\n"
    );
    let _nginx = programs::nginx(stage, &directives, server)?;
    stage.start_captures()?;
    let mut args = options;
    args.push("--insecure".to_owned());
    args.push(format!("https://{server}/items/[1-{}]", p.get("requests")?));
    let loaded = curl::transfers(stage, &args, None)?;
    let mut observed = Observed::new(loaded, server);
    observed.versions.extend([programs::nginx_version(stage), curl::version()]);
    Ok(observed)
}

/// Makes a self-signed certificate; `names` additional names of 25 bytes make it long.
fn make_certificate(stage: &Stage, names: u64) -> Result<(), LabError> {
    let at = |name: &str| stage.dir().join(name).to_string_lossy().into_owned();
    let mut alternatives = "subjectAltName=DNS:shop.lab".to_owned();
    for number in 0..names {
        // Writing to a String cannot fail.
        let _ = write!(alternatives, ",DNS:host{number:05}.long.shop.lab");
    }
    let (key_path, path) = (at("key"), at("certificate"));
    let mut args = vec!["req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "30"];
    args.extend(["-subj", "/CN=shop.lab", "-addext", &alternatives]);
    args.extend(["-keyout", &key_path, "-out", &path]);
    run("openssl", &args).map(|_| ())
}

/// Returns the handshake and the distance as causes.
fn far_truth(p: &Params, ran: &Ran) -> Result<Vec<Cause>, LabError> {
    let path_ns = 2 * ran.observed.loaded.requests.len() as u64 * p.get("rtt_ns")?;
    let path = Cause::by_twin("path_rtt", Role::Network, None)
        .measured(path_ns, "connects and requests times the link's round trip");
    let mut causes = truth(p, ran)?;
    causes.push(path);
    Ok(causes)
}

/// Returns the handshake as a cost: all of it, whatever part the twin saves.
fn truth(_: &Params, ran: &Ran) -> Result<Vec<Cause>, LabError> {
    let requests = &ran.observed.loaded.requests;
    if let Some(failed) = requests.iter().find_map(|r| r.error.clone()) {
        return Err(LabError::NotReproduced(failed));
    }
    let endpoint = Some(ran.observed.server.to_string());
    let lost_ns = requests.iter().map(|r| r.tls_ns).sum();
    let how = "TLS handshakes by the client's clock: curl's time_appconnect less time_connect";
    let cause = Cause::by_twin("tls_handshake", Role::Server, endpoint);
    Ok(vec![cause.measured(lost_ns, how)])
}
