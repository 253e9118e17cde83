//! Clients of Redis and PostgreSQL that write a command in pieces without `TCP_NODELAY`.

use std::net::SocketAddr;

use super::programs::{client, postgres, redis, version};
use crate::case::{Case, Observed, Ran, plain_link};
use crate::describe::{Knob, Layer, Treat};
use crate::error::LabError;
use crate::labels::{Cause, Class, Role, Variant};
use crate::params::Params;
use crate::rng::Rng;

/// A Redis client that writes each argument with its own call.
pub const REDIS: Case = Case {
    name: "client_nagle_redis",
    layer: Layer::Socket,
    summary: "a Redis client writes a command in pieces without TCP_NODELAY",
    class: Class::Fault,
    knob: Some(Knob {
        at: "the Redis client",
        faulty: "a command in several writes, TCP_NODELAY not set",
        healthy: "TCP_NODELAY set, with --one-write-is-the-fix 1 also one write",
        treat: &[Treat::at_client(&["nodelay", "--port", "6379", "--side", "client"])],
    }),
    params: |rng| params(rng).with("pipeline", 1),
    link: plain_link,
    act: |stage, p, variant| {
        let server = SocketAddr::new(stage.server_addr, 6379);
        let _process = redis(stage, server)?;
        stage.start_captures()?;
        let loaded = client(stage, "redis", server, &settings(p, variant)?)?;
        let mut observed = Observed::new(loaded, server);
        let versions = [("redis-server", "--version"), ("python3", "--version")];
        observed.versions.extend(
            versions
                .map(|(program, arg)| (program.to_owned(), version(&stage.server, program, arg))),
        );
        Ok(observed)
    },
    truth,
};

/// A PostgreSQL client that writes Parse, Bind, Execute and Sync with separate calls.
pub const POSTGRES: Case = Case {
    name: "client_nagle_postgres",
    layer: Layer::Socket,
    summary: "a PostgreSQL client writes a query in pieces without TCP_NODELAY",
    class: Class::Fault,
    knob: Some(Knob {
        at: "the PostgreSQL client",
        faulty: "a query in several writes, TCP_NODELAY not set",
        healthy: "TCP_NODELAY set, with --one-write-is-the-fix 1 also one write",
        treat: &[Treat::at_client(&["nodelay", "--port", "5432", "--side", "client"])],
    }),
    params: |rng| params(rng).with("pipeline", 1),
    link: plain_link,
    act: |stage, p, variant| {
        let server = SocketAddr::new(stage.server_addr, 5432);
        let (mut process, postgres) = postgres(stage, server)?;
        stage.start_captures()?;
        let loaded = client(stage, "postgres", server, &settings(p, variant)?);
        process.stop();
        let mut observed = Observed::new(loaded?, server);
        observed.versions.push(("postgres".to_owned(), postgres));
        let python = version(&stage.client, "python3", "--version");
        observed.versions.push(("python3".to_owned(), python));
        Ok(observed)
    },
    truth,
};

fn params(rng: &mut Rng) -> Params {
    Params::default()
        .with("rtt_ns", rng.pick(&[0, 0, 1_000_000, 10_000_000]))
        .with("rate_bps", 0)
        .with("requests", rng.between(25, 45))
        .with("connections", rng.pick(&[1, 1, 2]))
        .with("spacing_ns", rng.pick(&[0, 0, 2_000_000]))
        .with("value_bytes", rng.between(10, 900))
        .with("one_write_is_the_fix", rng.pick(&[0, 1]))
}

fn settings(p: &Params, variant: Variant) -> Result<Vec<(&'static str, u64)>, LabError> {
    let faulty = variant == Variant::Faulty;
    let one_write = !faulty && p.get("one_write_is_the_fix")? > 0;
    let keys = ["requests", "connections", "spacing_ns", "value_bytes", "pipeline"];
    let mut settings = vec![("split", u64::from(!one_write)), ("nodelay", u64::from(!faulty))];
    for key in keys {
        settings.push((key, p.get(key)?));
    }
    Ok(settings)
}

fn truth(p: &Params, ran: &Ran) -> Result<Vec<Cause>, LabError> {
    let one_connection = p.get("connections")? == 1;
    let first = ran.observed.loaded.requests.first();
    let endpoint = first.filter(|_| one_connection).map(|r| r.client_endpoint.clone());
    Ok(vec![Cause::by_twin("nagle_delayed_ack", Role::Client, endpoint)])
}
