//! Workloads without any fault, for which a diagnosis has to name none.

use std::time::Duration;

use crate::case::{Case, Observed, plain_link};
use crate::client::{self, Load};
use crate::describe::{Knob, Layer};
use crate::error::LabError;
use crate::labels::{Cause, Class, Role, Variant};
use crate::params::Params;
use crate::server::{Behaviour, Server};
use crate::stage::Stage;

const fn healthy(name: &'static str, summary: &'static str) -> Case {
    Case {
        name,
        layer: Layer::Application,
        summary,
        class: Class::None,
        knob: None,
        params: |_| Params::default(),
        link: plain_link,
        act: |stage, p, _| act(stage, p),
        truth: |_, _| Ok(Vec::new()),
    }
}

/// A keep-alive connection that is idle between requests.
pub const KEEP_ALIVE: Case = Case {
    params: |rng| {
        Params::default()
            .with("rtt_ns", rng.pick(&[0, 1_000_000, 12_000_000, 70_000_000]))
            .with("rate_bps", 0)
            .with("requests", rng.between(12, 25))
            .with("connections", rng.between(1, 4))
            .with("spacing_ns", rng.pick(&[40, 130, 300, 450]) * 1_000_000)
            .with("new_connections", 0)
            .with("body_bytes", rng.pick(&[0, 0, 80, 1_400, 5_000]))
            .with("response_bytes", rng.between(0, 9_000))
    },
    ..healthy("healthy_keep_alive", "keep-alive requests with pauses")
};

/// Large downloads into an autotuned receive buffer.
pub const DOWNLOADS: Case = Case {
    params: |rng| {
        Params::default()
            .with("rtt_ns", rng.pick(&[0, 1, 10, 30, 80]) * 1_000_000)
            .with("rate_bps", rng.pick(&[50, 100, 100, 200]) * 1_000_000)
            .with("requests", rng.between(1, 3))
            .with("connections", rng.pick(&[1, 1, 2]))
            .with("spacing_ns", 0)
            .with("new_connections", 0)
            .with("body_bytes", 0)
            .with("response_bytes", rng.between(2_000, 8_000) * 1_000)
            .with("snaplen_bytes", 128)
    },
    ..healthy("healthy_downloads", "large downloads, buffers left to the kernel")
};

/// Large uploads into an autotuned receive buffer.
pub const UPLOADS: Case = Case {
    params: |rng| {
        Params::default()
            .with("rtt_ns", rng.pick(&[0, 2, 20, 50]) * 1_000_000)
            .with("rate_bps", rng.pick(&[50, 100, 200]) * 1_000_000)
            .with("requests", rng.between(1, 4))
            .with("connections", 1)
            .with("spacing_ns", rng.pick(&[0, 50_000_000]))
            .with("new_connections", 0)
            .with("body_bytes", rng.between(1_000, 4_000) * 1_000)
            .with("response_bytes", rng.between(20, 300))
            .with("snaplen_bytes", 128)
    },
    ..healthy("healthy_uploads", "large uploads, buffers left to the kernel")
};

/// Many short connections.
pub const SHORT_CONNECTIONS: Case = Case {
    params: |rng| {
        Params::default()
            .with("rtt_ns", rng.pick(&[0, 0, 1, 8, 25]) * 1_000_000)
            .with("rate_bps", 0)
            .with("requests", rng.between(15, 40))
            .with("connections", rng.between(2, 10))
            .with("spacing_ns", rng.pick(&[0, 1_000_000, 10_000_000]))
            .with("new_connections", 1)
            .with("body_bytes", rng.pick(&[0, 0, 300]))
            .with("response_bytes", rng.between(10, 14_000))
    },
    ..healthy("healthy_short_connections", "many short connections")
};

/// A direct cable between two hosts, with packets as large as the kernel makes them.
pub const LAN: Case = Case {
    params: |rng| {
        Params::default()
            .with("rtt_ns", 0)
            .with("rate_bps", 0)
            .with("requests", rng.between(20, 60))
            .with("connections", rng.between(1, 4))
            .with("spacing_ns", rng.pick(&[0, 0, 3_000_000]))
            .with("new_connections", rng.pick(&[0, 0, 1]))
            .with("body_bytes", rng.pick(&[0, 0, 60_000]))
            .with("response_bytes", rng.between(100, 250_000))
            .with("snaplen_bytes", 200)
    },
    ..healthy("healthy_lan", "requests over a veth cable with GSO")
};

/// Nagle's algorithm is on at both ends and delays nothing, since each message is one write.
pub const NAGLE_ON: Case = Case {
    params: |rng| {
        Params::default()
            .with("rtt_ns", rng.pick(&[0, 0, 1, 10, 40]) * 1_000_000)
            .with("rate_bps", 0)
            .with("requests", rng.between(20, 60))
            .with("connections", rng.between(1, 4))
            .with("spacing_ns", rng.pick(&[0, 1_000_000, 60_000_000]))
            .with("new_connections", 0)
            .with("body_bytes", rng.pick(&[0, 40, 1_300, 2_000, 9_000]))
            .with("response_bytes", rng.between(10, 30_000))
            .with("nagle", 1)
    },
    ..healthy("healthy_nagle_on", "no TCP_NODELAY anywhere, but each message is one write")
};

/// The server sends events at its own pace, in small segments; ACKs are delayed, but no data waits
/// for one.
pub const PACED_STREAM: Case = Case {
    class: Class::Cost,
    knob: Some(Knob {
        at: "the server",
        faulty: "sends an event every {event_spacing_ns}",
        healthy: "sends them without pauses",
        treat: &[],
    }),
    params: |rng| {
        Params::default()
            .with("rtt_ns", rng.pick(&[0, 2, 15, 40]) * 1_000_000)
            .with("rate_bps", 0)
            .with("requests", rng.between(1, 3))
            .with("connections", rng.between(1, 2))
            .with("events", rng.between(15, 30))
            .with("event_bytes", rng.between(30, 1_400))
            .with("event_spacing_ns", rng.between(15, 90) * 1_000_000)
    },
    act: paced_act,
    truth: |_, ran| {
        let endpoint = Some(ran.observed.server.to_string());
        let cause = Cause::by_twin("server_think", Role::Server, endpoint)
            .measured(ran.observed.slept_ns, "server's own clock around its sleep");
        Ok(vec![cause])
    },
    ..healthy("paced_stream", "the server streams small events at its own pace: no Nagle")
};

fn paced_act(stage: &mut Stage, p: &Params, variant: Variant) -> Result<Observed, LabError> {
    let event_bytes = p.get("event_bytes")?;
    let mut behaviour = Behaviour {
        piece_bytes: event_bytes,
        ..Behaviour::healthy(event_bytes * p.get("events")?)
    };
    if variant == Variant::Faulty {
        behaviour.piece_pause = p.duration("event_spacing_ns")?;
    }
    let server = Server::start(&stage.server, stage.server_addr, 8080, behaviour)?;
    stage.start_captures()?;
    let load = Load {
        connections: p.get("connections")?,
        ..Load::get(server.endpoint(), p.get("requests")?)
    };
    let loaded = client::run(&stage.client, &load)?;
    Ok(Observed::with_server(loaded, &server))
}

fn act(stage: &mut Stage, p: &Params) -> Result<Observed, LabError> {
    let nodelay = p.get("nagle").unwrap_or(0) == 0;
    let behaviour = Behaviour { nodelay, ..Behaviour::healthy(p.get("response_bytes")?) };
    let server = Server::start(&stage.server, stage.server_addr, 8080, behaviour)?;
    stage.start_captures()?;
    let body_bytes = p.get("body_bytes")?;
    let load = Load {
        connections: p.get("connections")?,
        new_connections: p.get("new_connections")? > 0,
        spacing: Duration::from_nanos(p.get("spacing_ns")?),
        method: if body_bytes > 0 { "POST" } else { "GET" },
        body_bytes,
        nodelay,
        ..Load::get(server.endpoint(), p.get("requests")?)
    };
    let loaded = client::run(&stage.client, &load)?;
    Ok(Observed::with_server(loaded, &server))
}
