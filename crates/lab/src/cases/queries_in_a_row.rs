//! An application that asks its database for one row after the other (N+1 queries).

use std::net::SocketAddr;

use super::programs::{self, LOCAL_POSTGRES};
use crate::case::{Case, Observed, Ran, plain_link};
use crate::client::{self, Load};
use crate::describe::{Knob, Layer};
use crate::error::LabError;
use crate::labels::{Cause, Class, Role, Variant};
use crate::netns::run;
use crate::params::Params;
use crate::stage::Stage;

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

fn act(stage: &mut Stage, p: &Params, variant: Variant) -> Result<Observed, LabError> {
    let server = SocketAddr::new(stage.server_addr, 8080);
    let (mut postgres, postgres_version) = programs::postgres(stage, LOCAL_POSTGRES)?;
    let queries = match variant {
        Variant::Faulty => p.get("queries")?,
        Variant::Healthy => 1,
    };
    let seconds = p.get("query_ns")? as f64 / 1e9;
    let query = format!("SELECT pg_sleep({seconds}), ROW");
    let _application = programs::asks_postgres(stage, server, queries, &query)?;
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
    let cause = Cause::by_twin("upstream_wait", Role::Server, Some(LOCAL_POSTGRES.to_string()));
    // The client's capture has no connection to the database.
    Ok(vec![cause.unseen_at(&["client"]).looks_like(&[("server_think", Role::Server)])])
}
