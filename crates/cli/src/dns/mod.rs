//! `tcpwhy dns`: measures the resolution of a name, server by server, and says why it is slow.

mod args;
pub mod findings;
mod text;

pub use args::{Dns, EXAMPLES};

use crate::error::Error;
use crate::progress::Waiting;
use crate::{output, sandbox, terminal};
use serde::Serialize;
use serde_json::json;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::process::ExitCode;
use std::time::{Duration, Instant};
use tcpwhy_probe::budget::Budget;
use tcpwhy_probe::dns::{self, Config, Hosts, Judged, Lookup, Survey, Trace};

/// Exit status where faults were found.
const EXIT_FAULTS: u8 = 1;

/// All measurements of one run of `tcpwhy dns`.
struct Measured {
    config: Config,
    types: Vec<String>,
    survey: Survey,
    /// The addresses that /etc/hosts has for the name.
    in_hosts: Vec<IpAddr>,
    /// `false` if programs take these addresses and ask no server.
    asks_servers: bool,
    /// Time that getaddrinfo is expected to wait, computed from the first answers and from the last
    /// ones.
    expected: Lookup,
    expected_again: Lookup,
    /// The time by the last answers for each server at which a look-up may begin (`options rotate`);
    /// empty if all begin at the first.
    begins: Vec<Begin>,
    system: Option<System>,
    trace: Option<Trace>,
    findings: Vec<Judged>,
}

/// A server at which a look-up may begin, and the time that it then takes.
#[derive(Debug, Serialize)]
struct Begin {
    server: SocketAddr,
    took_ns: u64,
}

/// The measured look-up by this system's getaddrinfo.
#[derive(Debug, Serialize)]
struct System {
    took_ns: u64,
    /// Expected time, from the repeated answers; `None` if /etc/hosts has the name.
    expected_ns: Option<u64>,
    addresses: Vec<IpAddr>,
    error: Option<String>,
}

/// Queries the servers, measures, and prints the findings.
///
/// # Errors resolv.conf cannot be read, or no query can be sent to any server.
pub fn run(arguments: &Dns) -> Result<ExitCode, Error> {
    let mut config = match &arguments.resolv_conf {
        Some(path) => Config::read(path)?,
        None => Config::system()?,
    };
    if !arguments.servers.is_empty() {
        config = config.with_servers(arguments.servers.clone());
    }
    sandbox::confine_measuring(None);
    let waiting = Waiting::new(!arguments.json && !arguments.display.no_progress);
    let measured = measure(arguments, config, &waiting);
    drop(waiting);
    if let Some(why) = unsent(&measured.survey) {
        return Err(Error::DnsUnsent { server: measured.survey.servers[0].server, why });
    }
    if arguments.json {
        output::print_json(&document(&measured, &verify(arguments)))?;
    } else {
        let look = terminal::look(&arguments.display, arguments.all);
        output::print(&text::render(&measured, &verify(arguments), &look))?;
    }
    let faulty = findings::any_fault(&measured.findings);
    Ok(if faulty { ExitCode::from(EXIT_FAULTS) } else { ExitCode::SUCCESS })
}

fn measure(arguments: &Dns, config: Config, waiting: &Waiting) -> Measured {
    let (name, types) = (&arguments.name, arguments.types(&config));
    waiting.tell("asking the name servers");
    let budget = Budget::new(dns::survey_limits(name, &types, &config, arguments.count));
    let survey = dns::survey(name, &types, &config, arguments.count, &budget);
    let mut expected = dns::expect(name, &types, &config, &survey.first());
    let mut expected_again = dns::expect(name, &types, &config, &survey.repeated());
    let mut begins: Vec<Begin> = Vec::new();
    if config.starts() > 1 {
        let each = dns::expect_each(name, &types, &config, &survey.repeated());
        begins.extend(each.into_iter().map(|(server, it)| Begin { server, took_ns: it.took_ns }));
    }
    let in_hosts = Hosts::system().addresses(name);
    let asks_system = config.is_system && arguments.types.is_empty();
    let asks_servers = in_hosts.is_empty() || !asks_system || !config.asks_files_first();
    if !asks_servers {
        expected = Lookup::without_servers(name, in_hosts.clone());
        expected_again = expected.clone();
        begins.clear();
    }
    let system = (asks_system && name.parse::<IpAddr>().is_err()).then(|| {
        waiting.tell("asking getaddrinfo of this system");
        let mut system = system(name);
        // A look-up begins at any of the servers: the nearest of the times is that of this one.
        let each_ns = begins.iter().map(|it| it.took_ns);
        let nearest_ns = each_ns.min_by_key(|it| it.abs_diff(system.took_ns));
        let by_servers_ns = nearest_ns.unwrap_or(expected_again.took_ns);
        system.expected_ns = asks_servers.then_some(by_servers_ns);
        system
    });
    let trace = arguments.trace.then(|| {
        waiting.tell("following the name from the root down");
        dns::trace(name, types[0], &arguments.roots, Duration::from_secs(config.resolver.timeout_s))
    });
    let findings = match asks_servers {
        true => dns::judge(&config, &survey, &expected),
        false => Vec::new(),
    };
    let types = types.iter().map(ToString::to_string).collect();
    Measured {
        config,
        types,
        survey,
        in_hosts,
        asks_servers,
        expected,
        expected_again,
        begins,
        system,
        trace,
        findings,
    }
}

fn system(name: &str) -> System {
    let began = Instant::now();
    let answer = (name, 0).to_socket_addrs();
    let took_ns = u64::try_from(began.elapsed().as_nanos()).unwrap_or(u64::MAX);
    let (mut addresses, error) = match answer {
        Ok(answer) => (answer.map(|it| it.ip()).collect::<Vec<_>>(), None),
        Err(error) => (Vec::new(), Some(error.to_string())),
    };
    addresses.dedup();
    System { took_ns, expected_ns: None, addresses, error }
}

/// Returns the reason if no query could leave this host.
pub fn unsent(survey: &Survey) -> Option<String> {
    let mut queries =
        survey.servers.iter().flat_map(|it| &it.rounds).flat_map(|it| &it.queries).peekable();
    let why = |query: &dns::Query| match &query.outcome {
        dns::QueryOutcome::Unreachable { error } => Some(error.clone()),
        _ => None,
    };
    let first = why(queries.peek()?)?;
    queries.all(|it| why(it).is_some()).then_some(first)
}

/// Returns the command that repeats this measurement.
fn verify(arguments: &Dns) -> String {
    let mut command = format!("tcpwhy dns {}", arguments.name);
    for record_type in &arguments.types {
        command += &format!(" --type {record_type}");
    }
    if let Some(path) = &arguments.resolv_conf {
        command += &format!(" --resolv-conf {}", path.display());
    }
    for server in &arguments.servers {
        command += &format!(" --server {server}");
    }
    command
}

fn document(measured: &Measured, verify: &str) -> serde_json::Value {
    let resolver = &measured.config.resolver;
    let findings = measured.findings.iter().map(|it| findings::document(it, verify));
    json!({
        "schema_version": 1,
        "tool_version": env!("CARGO_PKG_VERSION"),
        "name": measured.survey.name,
        "types": measured.types,
        "config": {
            "file": resolver.file,
            "servers": measured.config.servers,
            "search": resolver.search,
            "ndots": resolver.ndots,
            "timeout_s": resolver.timeout_s,
            "attempts": resolver.attempts,
            "options": resolver.options,
            "nsswitch_hosts": resolver.hosts,
        },
        "candidates": measured.survey.candidates,
        "in_hosts_file": measured.in_hosts,
        "queries_sent": measured.survey.sent(),
        "servers": measured.survey.servers,
        "expected": measured.expected,
        "expected_again": measured.expected_again,
        "begins": measured.begins,
        "contradictions": measured.survey.contradictions(),
        "getaddrinfo": measured.system,
        "trace": measured.trace,
        "findings": findings.collect::<Vec<_>>(),
    })
}
