//! Servers whose threads cannot go on: a CPU quota, other programs on the CPU, an event loop or
//! workers that are busy, a lock, a disk, memory. A capture shows each as the server's own time; hooks
//! at the server tell them apart.

use std::net::SocketAddr;
use std::process::Command;
use std::time::Duration;

use super::programs;
use crate::case::{Case, Observed, Ran, plain_link};
use crate::client::{self, Load};
use crate::describe::{Knob, Layer};
use crate::error::LabError;
use crate::group::{Controller, Group};
use crate::labels::{Cause, Class, Role, Variant};
use crate::netns::{Process, run};
use crate::params::Params;
use crate::rng::Rng;
use crate::stage::Stage;
use crate::sys;
use crate::talk;

/// A CPU quota that requests use up.
pub const CPU_QUOTA: Case = Case {
    name: "cpu_quota",
    layer: Layer::Application,
    summary: "the CPU quota of its control group stops a server in the midst of requests",
    class: Class::Fault,
    knob: Some(Knob {
        at: "the control group's CPU quota",
        faulty: "{quota_ns} in each 100 ms",
        healthy: "1 s in each 100 ms",
        treat: &[],
    }),
    params: |rng| {
        params(rng, 30, (1, 1))
            .with("work_ns", rng.between(18, 25) * MS)
            .with("quota_ns", rng.between(12, 16) * MS)
    },
    link: plain_link,
    act: cpu_quota,
    truth: |_, ran| {
        let stopped_ns = measured(ran, "throttled_ns");
        reproduced(
            stopped_ns > ran.wall_ns() / 2,
            "the quota stopped the server for a short time",
        )?;
        truth("cpu_throttled", ran)
    },
};

/// Programs that compute on the server's CPU.
pub const NOISY_NEIGHBOURS: Case = Case {
    name: "noisy_neighbours",
    summary: "other programs compute on the server's CPU",
    knob: Some(Knob {
        at: "the server's CPU",
        faulty: "{neighbours} programs compute on it",
        healthy: "nothing else computes on it",
        treat: &[],
    }),
    params: |rng| {
        params(rng, 30, (1, 1))
            .with("work_ns", rng.between(15, 25) * MS)
            .with("neighbours", rng.between(3, 5))
    },
    act: noisy_neighbours,
    truth: |_, ran| truth("cpu_saturation", ran),
    ..CPU_QUOTA
};

/// Node.js that computes in the handler.
pub const NODE_LOOP: Case = Case {
    name: "node_loop_blocked",
    summary: "Node.js computes for each request, and blocks its event loop for the others",
    knob: Some(Knob {
        at: "the handler",
        faulty: "computes for {work_ns}",
        healthy: "answers at once",
        treat: &[],
    }),
    params: |rng| params(rng, 25, (6, 8)).with("work_ns", rng.between(20, 35) * MS),
    act: node_loop,
    truth: |_, ran| truth("event_loop_blocked", ran),
    ..CPU_QUOTA
};

/// Redis with a slow command among fast ones.
pub const REDIS_KEYS: Case = Case {
    name: "redis_keys",
    summary: "KEYS on a large database delays every other Redis command",
    knob: Some(Knob {
        at: "one command in three",
        faulty: "KEYS, over {keys} keys",
        healthy: "EXISTS",
        treat: &[],
    }),
    params: |rng| params(rng, 60, (5, 7)).with("keys", rng.between(300, 500) * 1_000),
    act: redis_keys,
    truth: |_, ran| truth("event_loop_blocked", ran),
    ..CPU_QUOTA
};

/// Two workers of gunicorn.
pub const WORKERS: Case = Case {
    name: "workers_exhausted",
    summary: "gunicorn has two workers and many clients",
    knob: Some(Knob {
        at: "gunicorn's --workers",
        faulty: "2",
        healthy: "{connections}",
        treat: &[],
    }),
    params: |rng| params(rng, 14, (14, 20)).with("work_ns", rng.between(40, 60) * MS),
    act: workers,
    truth: |_, ran| truth("workers_exhausted", ran),
    ..CPU_QUOTA
};

/// A lock that every request takes.
pub const LOCK: Case = Case {
    name: "lock_held",
    summary: "each request holds one lock of the server while it waits",
    knob: Some(Knob {
        at: "the handler",
        faulty: "takes a lock for {work_ns}",
        healthy: "sleeps as long without it",
        treat: &[],
    }),
    params: |rng| params(rng, 30, (5, 8)).with("work_ns", rng.between(15, 30) * MS),
    act: |stage, p, variant| {
        let work = if variant == Variant::Faulty { "hold" } else { "sleep" };
        plain(stage, p, work)
    },
    truth: |_, ran| truth("lock_wait", ran),
    ..CPU_QUOTA
};

/// A server that makes each request durable on a slow disk.
pub const DISK: Case = Case {
    name: "disk_throttled",
    summary: "each request is synced to a disk that does few operations a second",
    knob: Some(Knob {
        at: "the operations of the disk",
        faulty: "{operations} a second",
        healthy: "not limited",
        treat: &[],
    }),
    params: |rng| params(rng, 60, (1, 1)).with("operations", rng.between(10, 20)),
    act: |stage, p, variant| on_disk(stage, p, (variant == Variant::Faulty, "sync")),
    truth: |_, ran| truth("disk_wait", ran),
    ..CPU_QUOTA
};

/// A server whose data is not in memory.
pub const PAGES: Case = Case {
    name: "pages_dropped",
    summary: "each request reads a page of a mapped file that is not in memory, from a slow disk",
    knob: Some(Knob {
        at: "the pages of the file",
        faulty: "dropped before each request",
        healthy: "stay in memory",
        treat: &[],
    }),
    act: |stage, p, variant| {
        let work = if variant == Variant::Faulty { "drop" } else { "touch" };
        on_disk(stage, p, (true, work))
    },
    truth: |_, ran| truth("memory_pressure", ran),
    ..DISK
};

pub(super) const MS: u64 = 1_000_000;

/// Time that a request loses at least by each of these faults, ns.
const SLOW_MIN_NS: u64 = 10 * MS;

pub(super) fn params(rng: &mut Rng, requests: u64, (fewest, most): (u64, u64)) -> Params {
    Params::default()
        .with("rtt_ns", rng.pick(&[0, 0, 0, 5 * MS]))
        .with("rate_bps", 0)
        .with("requests", requests)
        .with("connections", rng.between(fewest, most))
        .with("spacing_ns", rng.between(5, 15) * MS)
}

fn measured(ran: &Ran, name: &str) -> u64 {
    ran.observed.measured.get(name).copied().unwrap_or(0)
}

pub(super) fn reproduced(holds: bool, otherwise: &str) -> Result<(), LabError> {
    if holds { Ok(()) } else { Err(LabError::NotReproduced(otherwise.to_owned())) }
}

/// The cause at the server, if its requests were slow by the client's clock.
pub(super) fn truth(cause: &'static str, ran: &Ran) -> Result<Vec<Cause>, LabError> {
    let count = ran.observed.loaded.requests.len() as u64;
    reproduced(ran.wall_ns() > count * SLOW_MIN_NS, "the requests were not slow")?;
    let endpoint = Some(ran.observed.server.to_string());
    let cause = Cause::by_twin(cause, Role::Server, endpoint).beside(measured(ran, "own_work_ns"));
    // Without hooks at the server, it is its own time.
    Ok(vec![cause.looks_like(&[("server_think", Role::Server)])])
}

/// Starts `work.py`, wrapped by `first`, as a member of `group`.
pub(super) fn start(
    stage: &Stage,
    p: &Params,
    work: &str,
    (first, group): (&[&str], Option<&Group>),
) -> Result<(Process, SocketAddr), LabError> {
    let server = SocketAddr::new(stage.server_addr, 8080);
    let path = programs::script(stage, "work.py", include_str!("programs/work.py"))?;
    let words: Vec<&str> = first.iter().copied().chain(["python3"]).collect();
    let mut command = stage.server.command(words[0]);
    command.args(&words[1..]).arg(path).arg(server.ip().to_string());
    let work_ns = p.get("work_ns").unwrap_or(0);
    command.arg(server.port().to_string()).arg(work).arg(seconds(work_ns));
    if p.get("operations").is_ok() || p.get("pages").is_ok() {
        command.arg(stage.dir().join("data"));
    }
    if let Ok(pages) = p.get("pages") {
        command.args([pages.to_string(), p.get("touched_pages")?.to_string()]);
    }
    sys::be_ordinary(&mut command);
    if let Some(group) = group {
        group.add(&mut command);
    }
    Ok((programs::serve(stage, command, "python3", server)?, server))
}

fn seconds(ns: u64) -> String {
    Duration::from_nanos(ns).as_secs_f64().to_string()
}

pub(super) fn load(
    stage: &mut Stage,
    p: &Params,
    server: SocketAddr,
) -> Result<Observed, LabError> {
    load_with(stage, p, Load::get(server, p.get("requests")?))
}

pub(super) fn load_with(stage: &mut Stage, p: &Params, load: Load) -> Result<Observed, LabError> {
    stage.start_captures()?;
    let server = load.server;
    let (connections, spacing) = (p.get("connections")?, p.duration("spacing_ns")?);
    let load = Load { connections, spacing, ..load };
    Ok(Observed::new(client::run(&stage.client, &load)?, server))
}

fn plain(stage: &mut Stage, p: &Params, work: &str) -> Result<Observed, LabError> {
    let (_server, at) = start(stage, p, work, (&[], None))?;
    load(stage, p, at)
}

fn cpu_quota(stage: &mut Stage, p: &Params, variant: Variant) -> Result<Observed, LabError> {
    let group = Group::new(Controller::Cpu)?;
    group.limit_cpu(Duration::from_secs(1))?;
    let (_server, at) = start(stage, p, "compute", (&[], Some(&group)))?;
    if variant == Variant::Faulty {
        group.limit_cpu(p.duration("quota_ns")?)?;
    }
    let before_ns = group.throttled_ns()?;
    let mut observed = load(stage, p, at)?;
    let stopped_ns = group.throttled_ns()?.saturating_sub(before_ns);
    observed.measured.insert("throttled_ns", stopped_ns);
    Ok(observed)
}

fn noisy_neighbours(stage: &mut Stage, p: &Params, variant: Variant) -> Result<Observed, LabError> {
    let cpu = sys::cpus().pop().unwrap_or(0).to_string();
    let (_server, at) = start(stage, p, "compute", (&["taskset", "-c", &cpu], None))?;
    let mut neighbours = Vec::new();
    if variant == Variant::Faulty {
        for _ in 0..p.get("neighbours")? {
            let mut command = stage.server.command("taskset");
            command.args(["-c", &cpu, "sh", "-c", "while :; do :; done"]);
            sys::be_ordinary(&mut command);
            neighbours.push(Process::start(command, "util-linux")?);
        }
    }
    load(stage, p, at)
}

const NODE: &str = "
const [host, port, work] = process.argv.slice(2);
require('http').createServer((request, response) => {
  const end = process.hrtime.bigint() + BigInt(work);
  while (process.hrtime.bigint() < end);
  response.end('x'.repeat(500));
}).listen(+port, host);
";

fn node_loop(stage: &mut Stage, p: &Params, variant: Variant) -> Result<Observed, LabError> {
    let server = SocketAddr::new(stage.server_addr, 8080);
    let path = programs::script(stage, "server.js", NODE)?;
    let work_ns = if variant == Variant::Faulty { p.get("work_ns")? } else { 0 };
    let mut command = stage.server.command("node");
    command.arg(path).arg(server.ip().to_string()).arg(server.port().to_string());
    command.arg(work_ns.to_string());
    let _node = programs::serve(stage, command, "nodejs", server)?;
    let mut observed = load(stage, p, server)?;
    let requests = observed.loaded.requests.len() as u64;
    observed.measured.insert("own_work_ns", requests * work_ns);
    observed.versions.push(version("node"));
    Ok(observed)
}

pub(super) fn version(program: &str) -> (String, String) {
    let version = run(program, &["--version"]).unwrap_or_default();
    (program.to_owned(), version.trim().to_owned())
}

fn redis_keys(stage: &mut Stage, p: &Params, variant: Variant) -> Result<Observed, LabError> {
    let server = SocketAddr::new(stage.server_addr, 6379);
    let ip = server.ip().to_string();
    let mut command = stage.server.command("redis-server");
    command.args(["--bind", &ip, "--port", "6379", "--save", "", "--protected-mode", "no"]);
    command.args(["--enable-debug-command", "yes"]).current_dir(stage.dir());
    let _redis = programs::serve(stage, command, "redis-server", server)?;
    let keys = p.get("keys")?.to_string();
    stage.server.run("redis-cli", &["-h", &ip, "DEBUG", "POPULATE", &keys])?;
    let scan = match variant {
        Variant::Faulty => talk::redis_command(&["KEYS", "nothing*"]),
        Variant::Healthy => talk::redis_command(&["EXISTS", "nothing"]),
    };
    let get = talk::redis_command(&["GET", "key:1"]);
    let messages = (0..p.get("requests")?).map(|at| if at % 3 == 0 { &scan } else { &get }.clone());
    let messages = messages.collect();
    let mut observed = programs::converse(stage, p, server, messages, talk::redis_is_whole)?;
    observed.measured.insert("own_work_ns", keys_took_ns(stage, &ip)?);
    observed.versions.push(version("redis-server"));
    Ok(observed)
}

/// Returns the time that Redis at `ip` says it took for all KEYS, ns.
pub(super) fn keys_took_ns(stage: &Stage, ip: &str) -> Result<u64, LabError> {
    let stats = stage.server.run("redis-cli", &["-h", ip, "INFO", "commandstats"])?;
    let of_keys = stats.lines().find_map(|line| line.strip_prefix("cmdstat_keys:"));
    let took_us = of_keys.and_then(|it| it.split(',').find_map(|it| it.strip_prefix("usec=")));
    Ok(took_us.and_then(|us| us.parse::<u64>().ok()).unwrap_or(0) * 1_000)
}

const WSGI: &str = "
import os, time
def application(environment, start_response):
    time.sleep(float(os.environ['WORK_SECONDS']))
    start_response('200 OK', [('Content-Length', '500')])
    return [b'x' * 500]
";

fn workers(stage: &mut Stage, p: &Params, variant: Variant) -> Result<Observed, LabError> {
    let server = SocketAddr::new(stage.server_addr, 8080);
    programs::script(stage, "lab_app.py", WSGI)?;
    let count = if variant == Variant::Faulty { 2 } else { p.get("connections")? };
    let mut command: Command = stage.server.command("gunicorn");
    command.args(["--bind", &server.to_string(), "--workers", &count.to_string()]);
    // Its directory has its heartbeat files; the master ends with its workers.
    command.args(["--worker-tmp-dir", "/dev/shm", "--chdir"]).arg(stage.dir());
    command.arg("lab_app:application").env("WORK_SECONDS", seconds(p.get("work_ns")?));
    let mut gunicorn = programs::serve(stage, command, "gunicorn", server)?;
    let get = Load { new_connections: true, ..Load::get(server, p.get("requests")?) };
    let observed = load_with(stage, p, get);
    gunicorn.stop();
    let mut observed = observed?;
    observed.versions.push(version("gunicorn"));
    Ok(observed)
}

fn on_disk(
    stage: &mut Stage,
    p: &Params,
    (is_limited, work): (bool, &str),
) -> Result<Observed, LabError> {
    let group = Group::new(Controller::Disk)?;
    let (_server, at) = start(stage, p, work, (&[], Some(&group)))?;
    if is_limited {
        // Only now: it has made its file.
        group.limit_disk(stage.dir(), p.get("operations")?)?;
    }
    load(stage, p, at)
}
