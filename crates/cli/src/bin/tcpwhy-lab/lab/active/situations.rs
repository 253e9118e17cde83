//! Situations that only a client from outside meets, in no capture of a case: what its server does, and
//! where the report has to say it.

use super::cases::report;
use crate::lab::error::Error;
use serde_json::Value;
use std::fs;
use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::process::Command;
use tcpwhy_lab::capture::CaptureParams;
use tcpwhy_lab::netns::Process;
use tcpwhy_lab::rng::Rng;
use tcpwhy_lab::stage::{INTERFACE, Link, Stage, StageParams};
use tcpwhy_lab::{LabError, Variant, dns};

const SERVER: &str = include_str!("situations.py");
const PORT: u16 = 8080;
/// Name of the server with two addresses.
const NAME: &str = "two.lab";

/// The server of a situation, and the host in its URL.
type Served = Result<(Process, String), Error>;

/// A situation, whose server differs by one number from a healthy one.
pub struct Situation {
    /// Name on the command line.
    pub name: &'static str,
    /// The part of the report that states it.
    pub shows: &'static str,
    /// The command and its options.
    words: &'static [&'static str],
    /// Draws the number from the seed.
    number: fn(&mut Rng) -> u64,
    /// Starts the server with this number; a healthy one with `None`. Returns the host in its URL.
    serve: fn(&Stage, Option<u64>, u64) -> Served,
    /// Returns whether a report states the situation with its number.
    pub is_named: fn(&Value, u64) -> bool,
}

pub const SITUATIONS: [Situation; 8] = [
    Situation {
        name: "outside_errors",
        shows: "status",
        words: &["doctor", "--no-path"],
        number: |rng| rng.between(8, 12),
        serve: |stage, number, seed| python(stage, "errors", number, seed),
        is_named: |report, _| {
            has_fault(report, "status") || has_finding(report, "error_responses", "server")
        },
    },
    Situation {
        name: "outside_tail",
        shows: "tail",
        words: &["load", "-c", "10", "-n", "2000"],
        number: |rng| rng.between(40, 60),
        serve: |stage, number, seed| python(stage, "tail", number, seed),
        is_named: |report, _| !report["tail"].is_null(),
    },
    Situation {
        name: "outside_workers",
        shows: "workers",
        words: &["doctor", "--no-path", "--no-experiments", "--load=40"],
        number: |rng| rng.between(2, 6),
        serve: |stage, number, seed| python(stage, "workers", number, seed),
        is_named: |report, workers| {
            has_note(report, &format!("It works on about {workers} requests at a time"))
        },
    },
    Situation {
        name: "outside_standstill",
        shows: "standstills",
        words: &["load", "-c", "10", "-d", "4s"],
        number: |rng| rng.between(600, 1_200),
        serve: |stage, number, seed| python(stage, "standstill", number, seed),
        is_named: |report, _| all(&report["standstills"]).next().is_some(),
    },
    Situation {
        name: "outside_stream_limit",
        shows: "stream limit",
        words: &["doctor", "--no-path", "--no-load", "--http2"],
        number: |rng| rng.between(2, 5),
        serve: |stage, number, _| nginx(stage, number),
        is_named: |report, limit| {
            has_note(report, &format!("it allows {limit} streams at once, so the others queue"))
        },
    },
    Situation {
        name: "outside_dead_address",
        shows: "address",
        words: &["doctor", "--no-path", "--no-load", "--no-experiments"],
        number: |rng| rng.pick(&[1, 2]),
        serve: |stage, number, seed| two_addresses(stage, number, seed),
        is_named: |report, _| has_fault(report, "address"),
    },
    Situation {
        name: "outside_slow_link",
        shows: "bandwidth",
        words: &["doctor", "--no-path", "--no-load"],
        number: |rng| rng.between(10, 30),
        serve: |stage, number, seed| slow_link(stage, number, seed),
        is_named: |report, _| has_finding(report, "bandwidth", "network"),
    },
    Situation {
        name: "outside_pauses",
        shows: "server_think",
        words: &["doctor", "--no-path", "--no-load"],
        number: |rng| rng.between(45, 80),
        serve: |stage, number, seed| python(stage, "pauses", number, seed),
        is_named: |report, _| has_finding(report, "server_think", "server"),
    },
];

fn all(values: &Value) -> impl Iterator<Item = &Value> {
    values.as_array().into_iter().flatten()
}

/// Returns whether a note of the doctor contains `words`.
fn has_note(report: &Value, words: &str) -> bool {
    all(&report["doctor"]["notes"]).any(|it| it.to_string().contains(words))
}

fn has_finding(report: &Value, cause: &str, role: &str) -> bool {
    all(&report["findings"]).any(|it| it["cause"] == cause && it["culprit"]["role"] == role)
}

fn has_fault(report: &Value, kind: &str) -> bool {
    all(&report["doctor"]["faults"]).any(|it| it["kind"] == kind)
}

impl Situation {
    /// Returns the reports for root and for `nobody`, and the number of the situation.
    ///
    /// # Errors
    /// Not root, or the server cannot be started.
    pub fn ask(
        &self,
        seed: u64,
        variant: Variant,
    ) -> Result<([Result<Value, Error>; 2], u64), Error> {
        let mut rng = Rng::named(seed, self.name);
        let number = (self.number)(&mut rng);
        let params = StageParams {
            link: Link::Veth,
            ipv6: false,
            seed,
            capture: CaptureParams { snaplen_bytes: 0, any: false },
            congestion_control: "cubic",
        };
        let stage = Stage::build(params, None)?;
        let faulty = (variant == Variant::Faulty).then_some(number);
        let reports = [true, false].map(|is_root| {
            // A server that stands still does so once, so each report gets a new one.
            let (_server, host) = (self.serve)(&stage, faulty, seed)?;
            let url = format!("http://{host}:{PORT}/");
            let mut words: Vec<&str> = self.words.to_vec();
            words.insert(1, &url);
            words.extend(["--json", "--no-progress"]);
            report(&stage, is_root, &words, Path::new("/dev/null"))
        });
        Ok((reports, number))
    }
}

fn python(stage: &Stage, key: &str, number: Option<u64>, seed: u64) -> Served {
    let host = stage.server_addr.to_string();
    let server =
        serve(stage, &host, &[format!("{key}={}", number.unwrap_or(0)), format!("seed={seed}")])?;
    Ok((server, host))
}

fn serve(stage: &Stage, address: &str, words: &[String]) -> Result<Process, Error> {
    let script = stage.dir().join("situations.py");
    fs::write(&script, SERVER).map_err(Error::Keep)?;
    let mut command = stage.server.command("python3");
    command.arg(script).args([address, &PORT.to_string()]).args(words);
    let mut process = Process::start(command, "python3")?;
    process.wait_for_stderr("listens")?;
    Ok(process)
}

/// A server with answers of 150,000 bytes, behind a link of this rate, 100 kbit/s, and a queue of 60 KB;
/// without a number the link has no limit.
fn slow_link(stage: &Stage, number: Option<u64>, seed: u64) -> Served {
    if let Some(number) = number {
        let rate = format!("{number}00kbit");
        let shaper = ["burst", "10k", "limit", "60k"];
        let words = ["qdisc", "replace", "dev", INTERFACE, "root", "tbf", "rate", &rate];
        stage.server.run("tc", &[&words[..], &shaper].concat())?;
    }
    python(stage, "bytes", Some(150_000), seed)
}

/// nginx in HTTP/2 with this limit of streams at once, or with its own of 128.
fn nginx(stage: &Stage, limit: Option<u64>) -> Served {
    let at = |name: &str| stage.dir().join(name).display().to_string();
    let limit = limit.map_or(String::new(), |it| format!("http2_max_concurrent_streams {it};"));
    let temporary: String = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
        .map(|it| format!("{it}_temp_path {};", at(it)))
        .concat();
    let address = SocketAddr::new(stage.server_addr, PORT);
    let text = format!(
        "daemon off; master_process off; pid {}; error_log {};
         events {{}}
         http {{ access_log off; {temporary} {limit}
           server {{ listen {address} http2; location / {{ return 200 hello; }} }} }}",
        at("pid"),
        at("log"),
    );
    fs::write(stage.dir().join("conf"), text).map_err(Error::Keep)?;
    let mut command = stage.server.command("nginx");
    command.args(["-p", &at(""), "-c", &at("conf"), "-e", &at("log")]);
    let process = Process::start(command, "nginx-light")?;
    stage.wait_for_listener(address)?;
    Ok((process, stage.server_addr.to_string()))
}

/// A server whose name has two addresses; with a number the one that a client tries first drops SYNs.
fn two_addresses(stage: &Stage, number: Option<u64>, seed: u64) -> Served {
    let other = dns::add_resolver(&stage.server, stage.server_addr, 1)?;
    let mut both = [stage.server_addr, other];
    if number == Some(2) {
        both.reverse();
    }
    let hosts: String = both.iter().map(|it| format!("{it} {NAME}\n")).collect();
    let path = stage.dir().join("hosts");
    fs::write(&path, hosts).map_err(Error::Keep)?;
    let server = serve(stage, "0.0.0.0", &[format!("seed={seed}")])?;
    if number.is_some() {
        let first = first_address(stage, &path)?;
        let rules = format!(
            "add table inet outside; delete table inet outside; add table inet outside; \
             add chain inet outside in {{ type filter hook input priority 0; }}; \
             add rule inet outside in ip daddr {first} tcp dport {PORT} drop"
        );
        stage.server.run("nft", &[&rules])?;
    }
    Ok((server, NAME.to_owned()))
}

/// Returns the address that getaddrinfo names first.
fn first_address(stage: &Stage, hosts: &Path) -> Result<IpAddr, Error> {
    let mut command: Command = dns::mounting(&stage.client, hosts, "/etc/hosts", "getent");
    let output = command.args(["ahosts", NAME]).output().map_err(Error::Keep)?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let first = text.split_whitespace().next().and_then(|it| it.parse().ok());
    first.ok_or_else(|| LabError::NotReproduced(format!("{NAME} has no address: {text}")).into())
}
