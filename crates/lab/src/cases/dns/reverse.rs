//! Programs that look up the names of addresses at a resolver that does not answer: `ping`, and
//! PostgreSQL with `log_hostname`.

use std::net::SocketAddr;
use std::time::Duration;

use crate::case::{Case, Observed, plain_link};
use crate::client::{self, Load, Loaded, Request};
use crate::describe::{Knob, Layer};
use crate::dns::{self, NameServer, PTR};
use crate::error::{Doing, LabError};
use crate::labels::{Cause, Class, Role, Variant};
use crate::netns::run;
use crate::params::Params;
use crate::server::{Behaviour, Server};
use crate::stage::Stage;
use crate::sys;
use crate::talk::{self, Talk};

use super::NAME;
use crate::cases::programs;

const SECOND_NS: u64 = 1_000_000_000;

/// `ping` on a fast path is slow because of reverse look-ups; `ping -n` is not. The first requests
/// of the labels are the runs of `ping`, which have no TCP endpoint; those of a fast HTTP client
/// follow.
pub const PING: Case = Case {
    name: "reverse_dns_timeout",
    layer: Layer::Names,
    summary: "PTR questions stay unanswered: ping crawls over a fast path",
    class: Class::Fault,
    knob: Some(Knob {
        at: "the command line",
        faulty: "ping NAME",
        healthy: "ping -n NAME",
        treat: &[],
    }),
    params: |rng| {
        super::params(rng)
            .with("requests", rng.between(3, 6))
            .with("pings", rng.between(3, 5))
            .with("ping_runs", 1)
            .with("timeout_ns", rng.pick(&[5, 2, 1, 1]) * SECOND_NS)
    },
    link: plain_link,
    act: ping,
    truth: |_, ran| {
        let culprit = super::first_resolver(ran);
        Ok(vec![Cause::by_twin("reverse_dns_timeout", Role::Resolver, culprit)])
    },
};

/// PostgreSQL looks up the name of each client before it answers the client's start-up message. The
/// resolver is at the client's end of the link, so that the queries cross it.
pub const POSTGRES: Case = Case {
    name: "reverse_dns_postgres",
    layer: Layer::Names,
    summary: "PostgreSQL with log_hostname waits for a PTR query that is never answered",
    class: Class::Fault,
    knob: Some(Knob {
        at: "postgresql.conf",
        faulty: "log_hostname = on",
        healthy: "log_hostname = off",
        treat: &[],
    }),
    params: |rng| {
        super::params(rng)
            .with("requests", rng.between(2, 6))
            .with("connections", rng.between(1, 3))
            .with("timeout_ns", rng.pick(&[2, 1, 1]) * SECOND_NS)
    },
    link: plain_link,
    act: postgres,
    truth: PING.truth,
};

fn postgres(stage: &mut Stage, p: &Params, variant: Variant) -> Result<Observed, LabError> {
    let addr = dns::add_resolver(&stage.client, stage.client_addr, 0)?;
    let _resolver = NameServer::start(&stage.client, addr, dns::Behaviour::dead())?;
    let resolv_conf = super::resolv_conf(stage, &[addr], &super::timeout_option(p)?)?;
    let server = SocketAddr::new(stage.server_addr, 5432);
    let setting = match variant {
        Variant::Faulty => "log_hostname=on",
        Variant::Healthy => "log_hostname=off",
    };
    let (mut postgres, version) =
        programs::postgres_with(stage, server, &[setting], Some(&resolv_conf))?;
    stage.start_captures()?;
    let query = talk::postgres_query("SELECT 42 AS answer");
    let mut messages = vec![talk::postgres_startup()];
    messages.extend((0..p.get("requests")?).map(|_| query.clone()));
    let talk = Talk {
        server,
        connections: p.get("connections")?,
        messages,
        spacing: Duration::from_millis(10),
        is_whole: talk::postgres_is_whole,
    };
    let mut observed = Observed::new(talk::run(&stage.client, &talk)?, server);
    postgres.stop();
    let used = [("postgres".to_owned(), version), super::glibc_version()];
    observed.versions.extend(used);
    Ok(observed)
}

fn ping(stage: &mut Stage, p: &Params, variant: Variant) -> Result<Observed, LabError> {
    // In the namespace, where some system files are replaced, a shell would only say that the
    // program is missing.
    let version = run("ping", &["-V"])?.trim().to_owned();
    let resolvers = super::resolvers(stage, 1)?;
    let resolver =
        dns::Behaviour { ignores: vec![PTR], ..dns::Behaviour::healthy(NAME, stage.server_addr) };
    let _resolver = NameServer::start(&stage.server, resolvers[0], resolver)?;
    let resolv_conf = super::resolv_conf(stage, &resolvers, &super::timeout_option(p)?)?;
    let behaviour = Behaviour::healthy(p.get("response_bytes")?);
    let server = Server::start(&stage.server, stage.server_addr, 8080, behaviour)?;
    stage.start_captures()?;
    let mut loaded = Loaded::default();
    for _ in 0..p.get("ping_runs")? {
        let mut ping = dns::command(&stage.client, &resolv_conf, "ping");
        ping.args(["-c", &p.get("pings")?.to_string(), "-i", "0.2", "-W", "1"]);
        // With an address instead of a name, ping makes no reverse look-ups.
        if variant == Variant::Healthy {
            ping.arg("-n");
        }
        let start_ns = sys::realtime_ns();
        let out = ping.arg(NAME).output().doing("run ping")?;
        loaded.requests.push(Request {
            start_ns,
            end_ns: sys::realtime_ns(),
            error: (!out.status.success())
                .then(|| String::from_utf8_lossy(&out.stderr).trim().to_owned()),
            ..Default::default()
        });
    }
    let endpoint = SocketAddr::new(stage.server_addr, 8080);
    let load = Load::get(endpoint, p.get("requests")?);
    let web = client::run(&stage.client, &load)?;
    loaded.requests.extend(web.requests);
    loaded.kernel = web.kernel;
    let mut observed = Observed::with_server(loaded, &server);
    observed.versions.push(("ping".to_owned(), version));
    observed.versions.push(super::glibc_version());
    Ok(observed)
}
