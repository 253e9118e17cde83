//! The client stops reading in the middle of a download, and its window closes.

use std::panic;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant};

use crate::case::{Case, Observed, Ran, plain_link};
use crate::client::{self, Load};
use crate::counters::Counters;
use crate::describe::{Knob, Layer};
use crate::error::LabError;
use crate::labels::{Cause, Class, Role, Variant};
use crate::netns::Netns;
use crate::params::Params;
use crate::rng::Rng;
use crate::server::{Behaviour, Server};
use crate::stage::Stage;

/// The kernel's counter of closed windows that a receiver advertised.
const CLOSED_WINDOWS: &str = "TCPToZeroWindowAdv";

/// The client continues to read after some seconds; until then it answers the server's window
/// probes.
pub const CASE: Case = Case {
    name: "slow_reader",
    layer: Layer::Application,
    summary: "the client stops reading amid a download: zero window, probes are answered",
    class: Class::Fault,
    knob: Some(Knob {
        at: "the client",
        faulty: "stops reading for {read_pause_ns}",
        healthy: "reads without a pause",
        treat: &[],
    }),
    params: |rng| {
        let rtt_ms = rng.pick(&[0, 2, 20, 50]);
        params(rng)
            .with("rtt_ns", rtt_ms * 1_000_000)
            .with("rate_bps", if rtt_ms > 0 { 100_000_000 } else { 0 })
            .with("rcvbuf_bytes", ample_rcvbuf_bytes(rng, rtt_ms))
            .with("requests", rng.between(1, 2))
            .with("read_pause_ns", rng.between(800, 6_000) * 1_000_000)
    },
    link: plain_link,
    act: |stage, p, v| act(stage, p, v, download),
    truth: |_, ran| truth(ran, CLOSED_WINDOWS, &[]),
};

/// The path fails while the window is closed: the server gives up, and the client's late window
/// update is answered by a RST.
pub const UNANSWERED: Case = Case {
    name: "zero_window_unanswered",
    layer: Layer::Application,
    summary: "zero window, then probes without answer until the server gives up; RST at the end",
    class: Class::Fault,
    knob: Some(Knob {
        at: "the client and the link",
        faulty: "stops reading for {read_pause_ns}; the link fails meanwhile",
        healthy: "reads without a pause; the link holds",
        treat: &[],
    }),
    params: |rng| {
        params(rng)
            .with("rtt_ns", rng.between(2, 20) * 1_000_000)
            .with("rate_bps", 100_000_000)
            .with("rcvbuf_bytes", 512 * 1024)
            .with("requests", 1)
            .with("read_pause_ns", 6_000_000_000)
            // After the window has closed, so that some of the server's probes are answered before.
            .with("outage_after_ns", rng.between(100, 500) * 1_000_000)
            .with("outage_ns", 4_800_000_000)
            .with("tcp_retries2", 2)
    },
    link: plain_link,
    act: |stage, p, v| {
        if v == Variant::Faulty {
            let retries = p.get("tcp_retries2")?.to_string();
            stage.server.sysctl("net.ipv4.tcp_retries2", &retries)?;
        }
        act(stage, p, v, download_with_outage)
    },
    truth: |_, ran| {
        if ran.stage.server_counters.of("OutRsts") == 0 {
            return Err(LabError::NotReproduced("the late window update met no RST".to_owned()));
        }
        truth(ran, "TCPAbortOnTimeout", &["reset", "retransmission_timeout"])
    },
};

fn params(rng: &mut Rng) -> Params {
    Params::default()
        .with("response_bytes", rng.between(3_000, 5_000) * 1_000)
        .with("pause_after_bytes", rng.between(50, 300) * 1_000)
        // The payload is large and not needed.
        .with("snaplen_bytes", 400)
}

/// A receive buffer that does not limit a client that reads, and that a transfer of 3 MB fills: two
/// to four times the bandwidth-delay product at 100 Mbit/s. An autotuned buffer would grow until it
/// holds all of a later transfer, and no window would close.
pub fn ample_rcvbuf_bytes(rng: &mut Rng, rtt_ms: u64) -> u64 {
    let under_way_bytes = 100_000_000 / 8_000 * rtt_ms;
    (rng.between(2, 4) * under_way_bytes).clamp(512 * 1024, 2_500_000)
}

fn act(
    stage: &mut Stage,
    p: &Params,
    variant: Variant,
    run: fn(&Stage, &Params, &Load, Variant) -> Result<client::Loaded, LabError>,
) -> Result<Observed, LabError> {
    let behaviour = Behaviour::healthy(p.get("response_bytes")?);
    let server = Server::start(&stage.server, stage.server_addr, 8080, behaviour)?;
    stage.start_captures()?;
    let mut load = Load {
        pause_after_bytes: p.get("pause_after_bytes")?,
        rcvbuf_bytes: p.get("rcvbuf_bytes")?,
        ..Load::get(server.endpoint(), p.get("requests")?)
    };
    if variant == Variant::Faulty {
        load.read_pause = p.duration("read_pause_ns")?;
    }
    let loaded = run(stage, p, &load, variant)?;
    Ok(Observed::with_server(loaded, &server))
}

fn download(
    stage: &Stage,
    _: &Params,
    load: &Load,
    _: Variant,
) -> Result<client::Loaded, LabError> {
    client::run(&stage.client, load)
}

fn download_with_outage(
    stage: &Stage,
    p: &Params,
    load: &Load,
    variant: Variant,
) -> Result<client::Loaded, LabError> {
    let Some(relay) = stage.relay().filter(|_| variant == Variant::Faulty) else {
        return client::run(&stage.client, load);
    };
    let after = p.duration("outage_after_ns")?;
    let outage_for = p.duration("outage_ns")?;
    let switch = |out: bool| {
        let outage = relay.outage();
        outage.client_to_server.store(out, Ordering::Relaxed);
        outage.server_to_client.store(out, Ordering::Relaxed);
    };
    let before = Counters::read(&stage.client)?;
    thread::scope(|scope| {
        let outage = scope.spawn(|| {
            wait_for_closed_window(&stage.client, &before, load.read_pause)?;
            thread::sleep(after);
            switch(true);
            thread::sleep(outage_for);
            switch(false);
            Ok(())
        });
        let loaded = client::run(&stage.client, load);
        outage.join().unwrap_or_else(|panic| panic::resume_unwind(panic))?;
        loaded
    })
    .inspect(|_| thread::sleep(Duration::from_millis(200)))
}

/// Waits until a receiver in `netns` has advertised a closed window. On a slow host this takes
/// longer than any fixed time.
fn wait_for_closed_window(
    netns: &Netns,
    before: &Counters,
    at_most: Duration,
) -> Result<(), LabError> {
    let began = Instant::now();
    while Counters::read(netns)?.of(CLOSED_WINDOWS) <= before.of(CLOSED_WINDOWS) {
        if began.elapsed() > at_most {
            return Err(not_grown(CLOSED_WINDOWS));
        }
        thread::sleep(Duration::from_millis(10));
    }
    Ok(())
}

fn truth(ran: &Ran, counter: &str, also: &[&'static str]) -> Result<Vec<Cause>, LabError> {
    let stage = &ran.stage;
    let happened = stage.client_counters.of(counter) + stage.server_counters.of(counter);
    if happened == 0 {
        return Err(not_grown(counter));
    }
    let requests = &ran.observed.loaded.requests;
    let endpoint = requests.first().map(|r| r.client_endpoint.clone());
    Ok(vec![Cause::by_twin("zero_window", Role::Client, endpoint).or(also)])
}

fn not_grown(counter: &str) -> LabError {
    LabError::NotReproduced(format!("{counter} did not grow"))
}
