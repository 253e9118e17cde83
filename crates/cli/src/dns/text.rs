//! Text output of `tcpwhy dns`: the answer, each server, the time getaddrinfo waited, then the
//! findings.

use super::{Measured, System, findings};
use tcpwhy_core::model::units::{counted, duration, printable};
use tcpwhy_core::report::{Look, Page, Paint, left};
use tcpwhy_probe::dns::{
    Cache, Ended, Hop, Lookup, Query, QueryOutcome, ServerSurvey, Trace, Transport,
};

/// Renders the whole output.
pub fn render(measured: &Measured, verify: &str, look: &Look) -> String {
    let mut page = Page::new(look);
    headline(measured, &mut page);
    page.gap();
    servers(measured, &mut page);
    page.gap();
    waited(measured, &mut page);
    if let Some(trace) = &measured.trace {
        page.gap();
        traced(trace, &mut page);
    }
    for judged in &measured.findings {
        page.gap();
        findings::render(judged, verify, &mut page);
    }
    page.finish()
}

fn headline(measured: &Measured, page: &mut Page<'_>) {
    let name = printable(&measured.survey.name);
    let expected = &measured.expected;
    let took = duration(expected.took_ns);
    let sentence = match expected.ended {
        Ended::Found if !measured.asks_servers => {
            let addresses: Vec<_> = measured.in_hosts.iter().map(ToString::to_string).collect();
            format!("{name} is in /etc/hosts: {}. Programs ask no server.", addresses.join(", "))
        }
        Ended::Found => {
            let found = expected.found.as_deref().map(printable).unwrap_or_default();
            let as_is = found == name.trim_end_matches('.');
            let by = if as_is { String::new() } else { format!(" as {found}") };
            format!("{name} resolves{by} in {took}: {}", records(&expected.queries))
        }
        Ended::NoData => {
            format!("{name} exists and has no {} records.", measured.types.join(" or "))
        }
        Ended::NotFound => format!("There is no such name: {name} (NXDOMAIN after {took})."),
        Ended::TryAgain => {
            format!("{name} does not resolve: no server has an answer; a program waits {took}.")
        }
    };
    let faulty = findings::any_fault(&measured.findings) || expected.ended == Ended::TryAgain;
    let paint = if faulty { Paint::Fault } else { Paint::Good };
    page.paragraph(Some(paint), &sentence, 0);
    let resolver = &measured.config.resolver;
    let from = match (&resolver.file, measured.config.is_system) {
        (Some(file), _) => format!(" of {}", printable(file)),
        _ => String::new(),
    };
    let asked = format!(
        "Asked {}{from}, {}, each on its own and at the same time.",
        counted(measured.survey.servers.len() as u64, "server", "servers"),
        counted(measured.survey.sent(), "query", "queries"),
    );
    page.paragraph(Some(Paint::Dim), &asked, 0);
    for sentence in measured.survey.contradictions() {
        page.warning(&format!("the servers contradict each other: {}", printable(&sentence)));
    }
    if !measured.in_hosts.is_empty() && measured.asks_servers {
        let addresses: Vec<_> = measured.in_hosts.iter().map(ToString::to_string).collect();
        page.warning(&format!(
            "/etc/hosts has this name ({}): where nsswitch.conf lists `files` first, programs ask \
             no server",
            addresses.join(", ")
        ));
    }
    if let Some(hosts) = resolver.hosts.as_ref().filter(|it| has_other_services(it)) {
        page.warning(&format!(
            "nsswitch.conf has `hosts: {}`: what its other services add is not part of the \
             expected time",
            printable(hosts)
        ));
    }
}

/// Returns whether the hosts line of nsswitch.conf names services other than files and DNS.
fn has_other_services(hosts: &str) -> bool {
    hosts.split_whitespace().any(|it| !matches!(it, "files" | "dns") && !it.starts_with('['))
}

/// Returns the records of the answer, each once.
fn records(queries: &[Query]) -> String {
    let mut shown: Vec<String> = Vec::new();
    for record in queries.iter().flat_map(|it| &it.records) {
        let text = printable(&record.data);
        if !shown.contains(&text) {
            shown.push(text);
        }
    }
    const SHOWN_MAX: usize = 4;
    let more = shown.len().saturating_sub(SHOWN_MAX);
    shown.truncate(SHOWN_MAX);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    format!("{}{more}.", shown.join(", "))
}

/// Each server: first answer, repeated answer, round trip, cache.
fn servers(measured: &Measured, page: &mut Page<'_>) {
    let all = &measured.survey.servers;
    let width = all.iter().map(|it| it.server.to_string().len()).max().unwrap_or(6).max(6);
    let head = format!(
        "  {}  {}  {}  {}  says",
        left("server", width),
        left("first", 9),
        left("again", 9),
        left("way", 9),
    );
    page.line(&page.look.paint(Paint::Bold, &head));
    for server in all {
        let time = |ns: Option<u64>| ns.map_or_else(|| "-".to_owned(), duration);
        let start = format!(
            "{}  {}  {}  {}  ",
            left(&server.server.to_string(), width),
            left(&time(server.answer_ns(0)), 9),
            left(&time(server.repeated_ns()), 9),
            left(&time(server.rtt_ns), 9),
        );
        page.hanging(&start, &says(server));
        if page.look.all {
            server.rounds.iter().flat_map(|it| &it.queries).for_each(|it| query(it, page));
        }
    }
}

/// Describes in one line what one server answered.
fn says(server: &ServerSurvey) -> String {
    let mut parts: Vec<String> = Vec::new();
    let last = server.rounds.first().and_then(|it| it.queries.last());
    let types: Vec<&Query> = server
        .rounds
        .first()
        .map(|it| &it.queries[..])
        .unwrap_or_default()
        .iter()
        .filter(|it| last.is_some_and(|last| last.name == it.name))
        .collect();
    for query in &types {
        let over = if query.transport == Transport::Tcp { " over TCP" } else { "" };
        let took = duration(query.took_ns);
        parts.push(format!("{}{over} {} {took}", query.record_type, outcome(query)));
    }
    for query in &server.alone {
        parts.push(format!("{} alone {}", query.record_type, outcome(query)));
    }
    if let Some(query) = &server.reverse {
        let name = query.records.iter().rfind(|it| it.record_type == query.record_type);
        let said = name.map_or_else(|| outcome(query), |it| printable(&it.data));
        parts.push(format!("reverse {said} {}", duration(query.took_ns)));
    }
    let cache = match server.cache {
        Cache::Unknown => "",
        Cache::Authoritative => "authoritative: it needs no cache",
        Cache::Held => "it had the answer cached (the TTL counts down)",
        Cache::Filled => "it fetched the first answer; the later ones are from its cache",
        Cache::NotShown => "no cache shown: the TTL is whole each time and no answer is faster",
    };
    if !cache.is_empty() {
        parts.push(cache.to_owned());
    }
    parts.join(" · ")
}

fn outcome(query: &Query) -> String {
    match &query.outcome {
        QueryOutcome::Answered => counted(query.records.len() as u64, "record", "records"),
        QueryOutcome::NoData => "no records".to_owned(),
        QueryOutcome::NxDomain => "no such name".to_owned(),
        QueryOutcome::Failure { rcode } => rcode.clone(),
        QueryOutcome::Referred => "referred".to_owned(),
        QueryOutcome::Truncated => "cut short".to_owned(),
        QueryOutcome::Timeout => match &query.late {
            Some(late) => format!("answer after {}, waited", duration(late.took_ns)),
            None => "no answer".to_owned(),
        },
        QueryOutcome::PortClosed => "port closed".to_owned(),
        QueryOutcome::Unreachable { error } => error.clone(),
        QueryOutcome::Malformed => "no valid answer".to_owned(),
    }
}

fn query(query: &Query, page: &mut Page<'_>) {
    let over = if query.transport == Transport::Tcp { "TCP" } else { "UDP" };
    let line = format!(
        "    {} {over} {} {} {}: {} {}",
        left(&duration(query.sent_ns), 8),
        query.server,
        query.record_type,
        printable(&query.name),
        outcome(query),
        duration(query.took_ns)
    );
    page.line(&page.look.paint(Paint::Dim, &line));
}

/// Writes the time a program waits for the name, expected and measured.
fn waited(measured: &Measured, page: &mut Page<'_>) {
    let resolver = &measured.config.resolver;
    let text = format!(
        "a program waits {} ({}; ndots {}, timeout {} s, {}{})",
        duration(measured.expected.took_ns),
        steps(&measured.expected),
        resolver.ndots,
        resolver.timeout_s,
        counted(resolver.attempts, "attempt", "attempts"),
        resolver.options.iter().map(|it| format!(", {}", printable(it))).collect::<String>(),
    );
    page.labelled("expected", &text);
    if measured.survey.servers.iter().any(|it| it.rounds.len() > 1) {
        let again = &measured.expected_again;
        page.labelled("again", &format!("{} ({})", duration(again.took_ns), steps(again)));
    }
    let count = measured.begins.len();
    for begin in &measured.begins {
        let text = format!(
            "1 of {count} look-ups begins at {} (`options rotate`) and takes {}",
            begin.server,
            duration(begin.took_ns)
        );
        page.labelled("", &text);
    }
    match &measured.system {
        Some(system) => page.labelled("measured", &system_said(system)),
        None if !measured.config.is_system => page.labelled(
            "measured",
            "not: getaddrinfo reads /etc/resolv.conf alone, and other servers were named",
        ),
        None => {}
    }
    if page.look.all {
        measured.expected.queries.iter().for_each(|it| query(it, page));
    }
}

fn steps(lookup: &Lookup) -> String {
    let mut names: Vec<&str> = lookup.queries.iter().map(|it| it.name.as_str()).collect();
    names.dedup();
    let silent = lookup.queries.iter().filter(|it| it.is_silent()).count() as u64;
    let mut text = format!(
        "{} for {}",
        counted(lookup.queries.len() as u64, "query", "queries"),
        counted(names.len() as u64, "name", "names")
    );
    if silent > 0 {
        text += &format!(", {silent} without an answer");
    }
    text
}

fn system_said(system: &System) -> String {
    let took = duration(system.took_ns);
    let end = match &system.error {
        Some(error) => printable(error),
        None => counted(system.addresses.len() as u64, "address", "addresses"),
    };
    let than = system.expected_ns.map_or_else(String::new, |expected_ns| {
        let more = if system.took_ns >= expected_ns { "more" } else { "less" };
        let by = duration(system.took_ns.abs_diff(expected_ns));
        format!(", {by} {more} than by the repeated answers")
    });
    format!("getaddrinfo of this system took {took}{than}: {end}")
}

fn traced(trace: &Trace, page: &mut Page<'_>) {
    let title = format!("from the root down: {}", duration(trace.took_ns));
    page.line(&page.look.paint(Paint::Bold, &title));
    for (number, hop) in trace.hops.iter().enumerate() {
        step(number + 1, hop, page);
    }
    if let Some(failure) = &trace.failure {
        page.warning(&printable(failure));
    }
}

fn step(number: usize, hop: &Hop, page: &mut Page<'_>) {
    for query in &hop.queries {
        let zone = printable(&hop.zone);
        let server = hop.server_name.as_deref().map(|it| format!(" {}", printable(it)));
        let said = match (&query.outcome, &hop.refers_to) {
            (QueryOutcome::Referred, Some(to)) => format!("refers to {}", printable(&to.zone)),
            (QueryOutcome::Answered, _) => records(std::slice::from_ref(query)),
            _ => outcome(query),
        };
        let start = format!("{number} {zone}{} {}  ", server.unwrap_or_default(), query.server);
        let mut text = format!("{} {said}", duration(query.took_ns));
        if hop.server_address_ns > 0 {
            let found = duration(hop.server_address_ns);
            text += &format!(" (its address took {found} more)");
        }
        page.hanging(&start, &text);
    }
}
