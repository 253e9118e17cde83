//! A Java virtual machine whose heap is nearly full: it stops its threads to collect, again and again.

use std::fs;
use std::net::SocketAddr;

use super::programs::{jdk, script, serve, version};
use crate::case::{Case, Observed, Ran, plain_link};
use crate::client::{self, Load};
use crate::describe::{Knob, Layer};
use crate::error::{Doing, LabError};
use crate::labels::{Cause, Class, Role, Variant};
use crate::params::Params;
use crate::rng::Rng;
use crate::stage::Stage;

/// The Serial collector and a small heap.
pub const CASE: Case = Case {
    name: "jvm_gc",
    layer: Layer::Application,
    summary: "a Java server with a full heap stops for one collection after the other",
    class: Class::Fault,
    knob: Some(Knob {
        at: "the JVM's heap",
        faulty: "a fifth larger than the {kept_bytes} in use",
        healthy: "2 GB",
        treat: &[],
    }),
    params,
    link: plain_link,
    act,
    truth,
};

const MS: u64 = 1_000_000;
const MB: u64 = 1_000_000;

/// Heap of the twin, bytes.
const LARGE_BYTES: u64 = 2_000 * MB;

fn params(rng: &mut Rng) -> Params {
    Params::default()
        .with("rtt_ns", rng.pick(&[0, 0, 5 * MS]))
        .with("rate_bps", 0)
        .with("requests", rng.between(40, 60))
        .with("connections", rng.between(1, 3))
        .with("spacing_ns", rng.between(5, 15) * MS)
        .with("jdk", rng.pick(&[17, 25]))
        .with("kept_bytes", rng.between(90, 130) * MB)
        .with("allocated_bytes", rng.between(4, 8) * MB)
}

fn act(stage: &mut Stage, p: &Params, variant: Variant) -> Result<Observed, LabError> {
    let server = SocketAddr::new(stage.server_addr, 8080);
    let path = script(stage, "Collects.java", include_str!("programs/Collects.java"))?;
    let major = p.get("jdk")?;
    let java = jdk(major)?.join("bin/java");
    let (kept, log) = (p.get("kept_bytes")?, stage.dir().join("gc.log"));
    let heap = if variant == Variant::Faulty { kept * 6 / 5 } else { LARGE_BYTES };
    let mut command = stage.server.command(&java.to_string_lossy());
    command.args(["-Xshare:auto", "-XX:+UseSerialGC", "-Dsun.net.httpserver.nodelay=true"]);
    command.args([format!("-Xms{heap}"), format!("-Xmx{heap}")]);
    command.arg(format!("-Xlog:gc:file={}:none", log.display()));
    command.arg(path).arg(server.ip().to_string()).arg("8080");
    command.args([kept.to_string(), p.get("allocated_bytes")?.to_string()]);
    let _process = serve(stage, command, &format!("openjdk-{major}-jdk-headless"), server)?;
    // A virtual machine that is still compiling would be slow for reasons that no label names.
    client::run(&stage.client, &Load { connections: 4, ..Load::get(server, 20) })?;
    let pauses_ns = || Ok(paused_ns(&fs::read_to_string(&log).doing("read the log of the JVM")?));
    let before_ns: u64 = pauses_ns()?;
    stage.start_captures()?;
    let (connections, spacing) = (p.get("connections")?, p.duration("spacing_ns")?);
    let load = Load { connections, spacing, ..Load::get(server, p.get("requests")?) };
    let mut observed = Observed::new(client::run(&stage.client, &load)?, server);
    let stopped_ns = pauses_ns()?.saturating_sub(before_ns);
    observed.measured.insert("gc_pause_ns", stopped_ns);
    observed.versions.push(("java".to_owned(), version(&stage.server, java, "--version")));
    Ok(observed)
}

/// Adds up the pauses in a log that `-Xlog:gc` wrote, such as
/// `GC(3) Pause Full (Allocation Failure) 118M->91M(124M) 131.042ms`.
fn paused_ns(log: &str) -> u64 {
    let pauses = log.lines().filter(|line| line.contains(" Pause "));
    let lengths = pauses.filter_map(|line| {
        let ms: f64 = line.split_whitespace().next_back()?.strip_suffix("ms")?.parse().ok()?;
        Some((ms * MS as f64) as u64)
    });
    lengths.sum()
}

fn truth(p: &Params, ran: &Ran) -> Result<Vec<Cause>, LabError> {
    let stopped_ns = ran.observed.measured.get("gc_pause_ns").copied().unwrap_or(0);
    // Each pause holds up what is in progress on each connection.
    if stopped_ns.saturating_mul(p.get("connections")?) < ran.wall_ns() / 2 {
        return Err(LabError::NotReproduced("the collector stopped it for a short time".into()));
    }
    let endpoint = Some(ran.observed.server.to_string());
    let cause = Cause::by_twin("gc_pause", Role::Server, endpoint);
    // Without hooks at the server, it is its own time.
    Ok(vec![cause.looks_like(&[("server_think", Role::Server)])])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_are_added_up_and_concurrent_work_is_not() {
        let log = "Using Serial\n\
                   GC(0) Pause Young (Allocation Failure) 25M->9M(96M) 5.250ms\n\
                   GC(1) Concurrent Mark Cycle 100.000ms\n\
                   GC(2) Pause Full (Allocation Failure) 96M->91M(96M) 131.042ms\n\
                   GC(3) Pause Full (Allocation Fail";
        assert_eq!(paused_ns(log), 136_292_000);
    }
}
