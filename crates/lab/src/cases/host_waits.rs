//! Servers whose threads wait for something beyond them: a lock of Java or of PostgreSQL, a database on a
//! slow disk, Redis behind two servers, an answer of the client's host, memory that its control group
//! denies. A capture at the server shows what other servers do; hooks there show the rest.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::thread;
use std::time::Duration;

use super::host_work::{self, CPU_QUOTA, MS, load, params, start, truth, version};
use super::programs::{self, LOCAL_POSTGRES, jdk, script, serve};
use crate::case::{Case, Observed, Ran};
use crate::client::{self, Load};
use crate::describe::{Knob, Layer};
use crate::error::LabError;
use crate::group::{Controller, Group};
use crate::labels::{Cause, Role, Variant};
use crate::netns::{Netns, Process};
use crate::params::Params;
use crate::stage::{INTERFACE, Stage};
use crate::sys;
use crate::talk;

/// A Java monitor that every request takes; threads of a virtual machine sleep by the same call by
/// which they wait for it.
pub const JAVA_LOCK: Case = Case {
    name: "java_lock",
    summary: "each request of a Java server holds one monitor while it waits",
    knob: Some(Knob {
        at: "the handler",
        faulty: "holds a monitor for {work_ns}",
        healthy: "sleeps as long without it",
        treat: &[],
    }),
    params: |rng| {
        params(rng, 15, (10, 14))
            .with("work_ns", rng.between(15, 30) * MS)
            .with("jdk", rng.pick(&[17, 25]))
    },
    act: java_lock,
    truth: |_, ran| truth("lock_wait", ran),
    ..CPU_QUOTA
};

/// A row that every transaction of PostgreSQL changes.
pub const ROW_LOCK: Case = Case {
    name: "postgres_row_lock",
    summary: "all transactions of PostgreSQL change the same row",
    knob: Some(Knob {
        at: "the rows that are changed",
        faulty: "one for all clients, kept for {work_ns}",
        healthy: "one for each client, kept as long",
        treat: &[],
    }),
    params: |rng| params(rng, 12, (10, 14)).with("work_ns", rng.between(15, 30) * MS),
    act: row_lock,
    truth: |_, ran| truth("lock_wait", ran),
    ..CPU_QUOTA
};

/// A database that commits to a slow disk, behind an application.
pub const COMMITS: Case = Case {
    name: "postgres_disk_throttled",
    summary: "an application waits for PostgreSQL, whose disk does few operations a second",
    knob: Some(Knob {
        at: "the operations of the database's disk",
        faulty: "{operations} a second",
        healthy: "not limited",
        treat: &[],
    }),
    params: |rng| {
        params(rng, 25, (1, 1)).with("operations", rng.between(10, 20)).with("any_interface", 1)
    },
    act: commits,
    truth: |_, ran| behind(("disk_wait", LOCAL_POSTGRES), ran),
    ..CPU_QUOTA
};

/// A slow command of Redis, which a Go server sends for each request of nginx.
pub const CHAIN: Case = Case {
    name: "nginx_go_redis",
    summary: "nginx asks a Go server, and that a Redis in which KEYS takes long",
    knob: Some(Knob {
        at: "the Go server's command",
        faulty: "KEYS, over {keys} keys",
        healthy: "EXISTS",
        treat: &[],
    }),
    params: |rng| {
        params(rng, 20, (5, 7)).with("keys", rng.between(300, 500) * 1_000).with("any_interface", 1)
    },
    act: chain,
    truth: |_, ran| behind(("event_loop_blocked", LOCAL_REDIS), ran),
    ..CPU_QUOTA
};

/// A connection to the client's host that is never answered, as by a mail server that asks who the
/// client is.
pub const IDENT: Case = Case {
    name: "ident_filtered",
    summary: "for each request the server asks the client's ident port, where a packet filter drops the SYN",
    knob: Some(Knob {
        at: "the server's handler",
        faulty: "asks, and waits {work_ns} for the answer",
        healthy: "does not ask",
        treat: &[],
    }),
    params: |rng| params(rng, 4, (1, 3)).with("work_ns", rng.between(1_300, 2_600) * MS),
    act: ident,
    truth: |_, ran| {
        let again = ran.stage.server_counters.of("TCPSynRetrans");
        host_work::reproduced(again > 0, "no SYN of the server was repeated")?;
        let cause = Cause::by_twin("syn_retransmit", Role::Network, None);
        // The client's capture shows that its host has the SYNs.
        Ok(vec![
            cause.looks_like(&[("syn_retransmit", Role::Client), ("syn_retransmit", Role::Server)]),
        ])
    },
    ..CPU_QUOTA
};

/// Memory for less than what every request reads.
pub const MEMORY: Case = Case {
    name: "memory_limit",
    summary: "the memory limit of its control group makes a server read its data from the disk again and again",
    knob: Some(Knob {
        at: "the control group's memory limit",
        faulty: "{limit_bytes}",
        healthy: "none",
        treat: &[],
    }),
    params: |rng| {
        params(rng, 25, (1, 1))
            .with("pages", rng.between(60_000, 90_000))
            .with("touched_pages", rng.between(400, 600))
            .with("limit_bytes", rng.between(30, 40) << 20)
    },
    act: memory,
    truth: |_, ran| truth("memory_pressure", ran),
    ..CPU_QUOTA
};

/// A shaper at the server's interface whose queue other traffic fills.
pub const QUEUE: Case = Case {
    name: "interface_queue",
    layer: Layer::Link,
    summary: "answers wait in the queue of the server's interface, which other traffic fills",
    knob: Some(Knob {
        at: "the queueing discipline of the server's interface",
        faulty: "a shaper to {shaped_bps}, with a queue of {queue_ns}",
        healthy: "no shaper",
        treat: &[],
    }),
    params: |rng| {
        params(rng, 150, (1, 2))
            .with("rtt_ns", 0)
            .with("rate_bps", 0)
            .with("shaped_bps", rng.between(15, 30) * 1_000_000)
            .with("queue_ns", rng.between(30, 60) * MS)
    },
    act: queue,
    truth: |_, ran| {
        truth("bufferbloat", ran)?;
        let endpoint = Some(ran.observed.server.to_string());
        let cause = Cause::by_twin("bufferbloat", Role::Network, endpoint);
        // Captures see answers behind the queue, as if they came from farther or later.
        let alike = [("server_think", Role::Server), ("path_rtt", Role::Network)];
        Ok(vec![cause.unseen_at(&["client", "server"]).looks_like(&alike)])
    },
    ..CPU_QUOTA
};

/// Time in which the traffic beside fills the queue.
const SETTLED: Duration = Duration::from_millis(500);

const LOCAL_REDIS: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 6379);
const LOCAL_GO: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 9000);

/// The cause at a server behind the one that the clients ask.
fn behind(
    (cause, endpoint): (&'static str, SocketAddr),
    ran: &Ran,
) -> Result<Vec<Cause>, LabError> {
    truth(cause, ran)?;
    let cause = Cause::by_twin(cause, Role::Server, Some(endpoint.to_string()));
    let own_ns = ran.observed.measured.get("own_work_ns").copied().unwrap_or(0);
    let cause = cause.beside(own_ns).or(&["upstream_wait"]);
    // The client's capture has no connection between these servers.
    Ok(vec![cause.unseen_at(&["client"]).looks_like(&[("server_think", Role::Server)])])
}

fn java_lock(stage: &mut Stage, p: &Params, variant: Variant) -> Result<Observed, LabError> {
    let server = SocketAddr::new(stage.server_addr, 8080);
    let path = script(stage, "Waits.java", include_str!("programs/Waits.java"))?;
    let major = p.get("jdk")?;
    let java = jdk(major)?.join("bin/java");
    let mut command = stage.server.command(&java.to_string_lossy());
    command.args(["-Xmx64m", "-Xshare:auto", "-Dsun.net.httpserver.nodelay=true"]);
    command.arg(path).arg(server.ip().to_string()).arg("8080");
    command.arg((p.get("work_ns")? / MS).to_string());
    command.arg(if variant == Variant::Faulty { "hold" } else { "sleep" });
    let _process = serve(stage, command, &format!("openjdk-{major}-jdk-headless"), server)?;
    // A virtual machine that is still compiling would be slow for reasons that no label names.
    client::run(&stage.client, &Load { connections: 4, ..Load::get(server, 20) })?;
    let mut observed = load(stage, p, server)?;
    let version = programs::version(&stage.server, java, "--version");
    observed.versions.push(("java".to_owned(), version));
    Ok(observed)
}

/// Runs commands of SQL in a PostgreSQL of the lab.
fn psql(stage: &Stage, server: SocketAddr, sql: &str) -> Result<(), LabError> {
    let (host, port) = (server.ip().to_string(), server.port().to_string());
    let at = ["-h", &host, "-p", &port, "-U", "postgres"];
    stage.server.run("psql", &[&at[..], &["-q", "-c", sql]].concat())?;
    Ok(())
}

fn row_lock(stage: &mut Stage, p: &Params, variant: Variant) -> Result<Observed, LabError> {
    let server = SocketAddr::new(stage.server_addr, 5432);
    let (mut postgres, version) = programs::postgres(stage, server)?;
    let made = "CREATE TABLE stock (id int PRIMARY KEY, sold int NOT NULL)";
    psql(stage, server, made)?;
    psql(stage, server, "INSERT INTO stock SELECT id, 0 FROM generate_series(0, 999) AS id")?;
    let seconds = p.get("work_ns")? as f64 / 1e9;
    let row = if variant == Variant::Faulty { "0" } else { "pg_backend_pid() % 1000" };
    // One message is one transaction.
    let sql =
        format!("UPDATE stock SET sold = sold + 1 WHERE id = {row}; SELECT pg_sleep({seconds})");
    let mut messages = vec![talk::postgres_startup()];
    messages.extend((0..p.get("requests")?).map(|_| talk::postgres_query(&sql)));
    let observed = programs::converse(stage, p, server, messages, talk::postgres_is_whole);
    postgres.stop();
    let mut observed = observed?;
    observed.versions.push(("postgres".to_owned(), version));
    Ok(observed)
}

fn commits(stage: &mut Stage, p: &Params, variant: Variant) -> Result<Observed, LabError> {
    let group = Group::new(Controller::Disk)?;
    let (mut postgres, version) =
        programs::postgres_with(stage, LOCAL_POSTGRES, &["fsync=on"], None)?;
    psql(stage, LOCAL_POSTGRES, "CREATE TABLE orders (id int)")?;
    group.take(&postgres)?;
    if variant == Variant::Faulty {
        group.limit_disk(stage.dir(), p.get("operations")?)?;
    }
    let server = SocketAddr::new(stage.server_addr, 8080);
    let query = "INSERT INTO orders VALUES (ROW)";
    let application = programs::asks_postgres(stage, server, 1, query)?;
    let observed = load(stage, p, server);
    drop(application);
    // PostgreSQL writes its last data to the disk when it ends: the limit would make that take long.
    group.limit_disk(stage.dir(), u64::from(u32::MAX))?;
    postgres.stop();
    let mut observed = observed?;
    observed.versions.push(("postgres".to_owned(), version));
    Ok(observed)
}

fn chain(stage: &mut Stage, p: &Params, variant: Variant) -> Result<Observed, LabError> {
    let server = SocketAddr::new(stage.server_addr, 8080);
    let mut command = stage.server.command("redis-server");
    command.args(["--bind", "127.0.0.1", "--port", "6379", "--save", ""]);
    command.args(["--enable-debug-command", "yes"]).current_dir(stage.dir());
    let _redis = serve(stage, command, "redis-server", LOCAL_REDIS)?;
    stage.server.run("redis-cli", &["DEBUG", "POPULATE", &p.get("keys")?.to_string()])?;
    let source = script(stage, "middle.go", include_str!("programs/middle.go"))?;
    let program = stage.dir().join("middle");
    let (source, output) = (source.to_string_lossy(), program.to_string_lossy());
    stage.server.run("go", &["build", "-o", &output, &source])?;
    let mut command = stage.server.command(&output);
    command.args([LOCAL_GO.to_string(), LOCAL_REDIS.to_string()]);
    command.args(match variant {
        Variant::Faulty => ["KEYS", "nothing*"],
        Variant::Healthy => ["EXISTS", "nothing"],
    });
    let _go = serve(stage, command, "golang-go", LOCAL_GO)?;
    let directives = format!(
        "upstream go {{ server {LOCAL_GO}; keepalive 32; }}\n\
         server {{ listen {server}; location / {{ proxy_pass http://go; \
         proxy_http_version 1.1; proxy_set_header Connection \"\"; }} }}\n"
    );
    let _nginx = programs::nginx(stage, &directives, server)?;
    let mut observed = load(stage, p, server)?;
    observed.measured.insert("own_work_ns", host_work::keys_took_ns(stage, "127.0.0.1")?);
    observed.versions.extend([programs::nginx_version(stage), version("redis-server")]);
    Ok(observed)
}

fn ident(stage: &mut Stage, p: &Params, variant: Variant) -> Result<Observed, LabError> {
    let rules = "add table inet lab; \
                 add chain inet lab in { type filter hook input priority 0; }; \
                 add rule inet lab in tcp dport 113 drop";
    stage.client.run("nft", &[rules])?;
    let work = if variant == Variant::Faulty { "ident" } else { "none" };
    let (_server, at) = start(stage, p, work, (&[], None))?;
    load(stage, p, at)
}

fn memory(stage: &mut Stage, p: &Params, variant: Variant) -> Result<Observed, LabError> {
    let group = Group::new(Controller::Memory)?;
    let (_server, at) = start(stage, p, "touch", (&[], Some(&group)))?;
    if variant == Variant::Faulty {
        group.limit_memory(p.get("limit_bytes")?)?;
    }
    load(stage, p, at)
}

fn queue(stage: &mut Stage, p: &Params, variant: Variant) -> Result<Observed, LabError> {
    let sink = SocketAddr::new(stage.client_addr, 9_999);
    let path = script(stage, "beside.py", include_str!("programs/beside.py"))?;
    let beside = |netns: &Netns, what: &str, more: &[String]| {
        let mut command = netns.command("python3");
        command.arg(&path).arg(what).arg(sink.ip().to_string()).arg(sink.port().to_string());
        sys::be_ordinary(command.args(more));
        Process::start(command, "python3")
    };
    let (_server, at) = start(stage, p, "none", (&[], None))?;
    let shaped_bps = p.get("shaped_bps")?;
    if variant == Variant::Faulty {
        // The queue in bytes is what the shaper sends in that time.
        let (rate, latency) =
            (format!("{shaped_bps}bit"), format!("{}ms", p.get("queue_ns")? / MS));
        let shaper = ["root", "tbf", "rate", &rate, "burst", "16kb", "latency", &latency];
        stage.server.run("tc", &[&["qdisc", "add", "dev", INTERFACE][..], &shaper].concat())?;
    }
    let _sink = beside(&stage.client, "take", &[])?;
    // A fifth more than the shaper lets pass.
    let _sender = beside(&stage.server, "send", &[(shaped_bps / 5 * 6).to_string()])?;
    thread::sleep(SETTLED);
    load(stage, p, at)
}
