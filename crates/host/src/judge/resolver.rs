//! Name resolution: resolv.conf(5). What a look-up costs is for a report to show; a resolver on
//! this host that does not answer shows itself.

use tcpwhy_core::model::Cause;
use tcpwhy_core::model::units::{counted, duration};

use super::Check;
use crate::entry::{Change, Entry, Layer, Rank};
use crate::facts::{Facts, reported, state};

pub const CHECKS: &[Check] = &[
    Check { id: "resolver_local", layer: Layer::Application, judge: local },
    Check { id: "resolver_timeouts", layer: Layer::Application, judge: timeouts },
    Check { id: "resolver_search", layer: Layer::Application, judge: search },
    Check { id: "nsswitch_hosts", layer: Layer::Application, judge: hosts },
];

fn file(facts: &Facts) -> String {
    facts.resolver.file.clone().unwrap_or_else(|| "/etc/resolv.conf".to_owned())
}

/// Returns a change that adds a line to resolv.conf, and how to undo it.
fn option(facts: &Facts, what: &str, line: &str, risk: &str) -> Change {
    let file = file(facts);
    Change::command(
        format!("{what} (where a program writes the file, set it there)"),
        format!("echo '{line}' >> {file}"),
        risk,
        format!("sed -i '/^{line}$/d' {file}"),
    )
}

fn local(check: &Check, facts: &Facts) -> Vec<Entry> {
    if facts.resolver.file.is_none() {
        return Vec::new();
    }
    let why = "without a cache on the host each look-up is a round trip to a resolver elsewhere";
    let Some(local) = &facts.resolver.local else {
        let entry = check.entry("name cache of this host", "none in resolv.conf", why);
        let findings = reported(facts.near_findings(&[Cause::DnsSlow]));
        let change = Change::by_hand(
            "run a cache on this host (systemd-resolved, dnsmasq, unbound) and name it first in \
             resolv.conf",
            "one more program to watch; changes of names show when their TTL ends",
            format!("name the present servers in {} again", file(facts)),
        );
        return vec![entry.explains(&[Cause::DnsSlow], findings).change(change)];
    };
    let what = format!("resolver at {}", local.address);
    let Some(failure) = &local.failure else {
        let took = local.answer_ns.map(duration).unwrap_or_default();
        return vec![check.entry(what, format!("answers in {took}"), why)];
    };
    let evidence = vec![state(format!("one query to {}: {failure}", local.address))];
    let change = Change::by_hand(
        format!(
            "start the resolver that should listen there (`ss -lunp 'sport = :53'` shows which \
             does), or name another server in {}",
            file(facts)
        ),
        "none",
        "put the present `nameserver` line back",
    );
    let why = "each look-up of a name asks it, and fails, or waits for its timeout first";
    let entry = check.entry(what, "named in resolv.conf, and does not answer", why);
    vec![entry.explains(&[Cause::DnsTimeout], evidence).ranked(Rank::Limit).change(change)]
}

fn timeouts(check: &Check, facts: &Facts) -> Vec<Entry> {
    let resolver = &facts.resolver;
    if resolver.file.is_none() {
        return Vec::new();
    }
    let servers: Vec<_> = resolver.nameservers.iter().map(ToString::to_string).collect();
    let value = format!(
        "{} ({}); timeout {} s, {}{}: a name fails after up to {} s",
        counted(servers.len() as u64, "server", "servers"),
        servers.join(", "),
        resolver.timeout_s,
        counted(resolver.attempts, "attempt", "attempts"),
        resolver.options.iter().map(|it| format!(", {it}")).collect::<String>(),
        resolver.longest_wait_s(),
    );
    let why = "a query without an answer waits so long before the next server is asked";
    let entry = check.entry(format!("servers of {}", file(facts)), value, why);
    let causes = [Cause::DnsTimeout, Cause::DnsFailure, Cause::ReverseDnsTimeout];
    let mut findings = facts.near_findings(&causes).peekable();
    if let Some(first) = findings.peek() {
        let cause = first.cause;
        let change = if servers.len() < 2 {
            option(
                facts,
                "replace the server that does not answer, or add a second `nameserver` line; until \
                 then ask it again sooner",
                "options timeout:1 attempts:3",
                "a server that is slow but works is asked again",
            )
        } else {
            option(
                facts,
                "replace the server that does not answer; until then ask the next one sooner",
                "options timeout:1 attempts:3 rotate",
                "a server that is slow but works is asked again; rotate spreads the load over all",
            )
        };
        return vec![entry.explains(&[cause], reported(findings)).change(change)];
    }
    let races = reported(facts.near_findings(&[Cause::ConntrackRace]));
    let is_set = resolver.has("single-request-reopen") || resolver.has("single-request");
    if races.is_empty() || is_set {
        return vec![entry];
    }
    let change = option(
        facts,
        "ask for A and AAAA one after the other, from two ports",
        "options single-request-reopen",
        "a look-up of both address families takes a round trip more",
    );
    vec![entry.explains(&[Cause::ConntrackRace], races).change(change)]
}

fn search(check: &Check, facts: &Facts) -> Vec<Entry> {
    let resolver = &facts.resolver;
    if resolver.file.is_none() {
        return Vec::new();
    }
    let domains = resolver.search.join(" ");
    let domains = if domains.is_empty() { "none".to_owned() } else { domains };
    let value = format!("{domains}; ndots {}", resolver.ndots);
    let why = "a name with fewer dots than ndots is tried with each domain of the list first: a \
               query, or two, for each that does not exist";
    let entry = check.entry("search list", value, why);
    let findings = facts.near_findings(&[Cause::DnsSearch]);
    if resolver.search.is_empty() {
        return vec![entry];
    }
    let findings = reported(findings);
    if resolver.ndots <= 1 {
        let change = Change::by_hand(
            "end full names with a dot in the program's configuration, or shorten the search list",
            "short names of a domain that is left out are no longer found",
            format!("put `search {}` back into {}", resolver.search.join(" "), file(facts)),
        );
        return vec![entry.explains(&[Cause::DnsSearch], findings).change(change)];
    }
    let change = option(
        facts,
        "ask for names with a dot as they are first",
        "options ndots:1",
        "names such as `db.prod` that need the list are found later",
    );
    vec![entry.explains(&[Cause::DnsSearch], findings).change(change)]
}

fn hosts(check: &Check, facts: &Facts) -> Vec<Entry> {
    let Some(hosts) = &facts.resolver.hosts else { return Vec::new() };
    let why = "the services that are asked for a name, in this order; mdns waits for an answer on \
               the link where it is not followed by [NOTFOUND=return]";
    vec![check.entry("hosts line of nsswitch.conf", hosts.clone(), why)]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::judge::tests::{find, idle, loud, only};
    use tcpwhy_live::resolver::{Local, parse};

    fn facts(text: &str) -> Facts {
        let mut facts = idle();
        facts.resolver = parse(text);
        facts.resolver.file = Some("/etc/resolv.conf".into());
        facts
    }

    #[test]
    fn a_resolver_here_that_does_not_answer_is_a_symptom_of_its_own() {
        let mut facts = facts("nameserver 127.0.0.53\n");
        let address = "127.0.0.53".parse().unwrap();
        let answers = Local { address, answer_ns: Some(9), failure: None };
        facts.resolver.local = Some(answers.clone());
        assert_eq!(loud(&facts), []);
        let failure = Some("no answer within 1 s".to_owned());
        facts.resolver.local = Some(Local { answer_ns: None, failure, ..answers });
        assert_eq!(only(&facts).explains, [Cause::DnsTimeout]);
    }

    #[test]
    fn findings_on_names_lead_to_their_own_setting() {
        let mut timeout = facts("nameserver 10.0.0.2\nsearch a.example\noptions ndots:5\n");
        assert_eq!(loud(&timeout), []);
        find(&mut timeout, Cause::DnsTimeout, "resolver", "10.0.0.2:53");
        assert_eq!(only(&timeout).check, "resolver_timeouts");
        let mut search = facts("nameserver 10.0.0.2\nsearch a.example\noptions ndots:5\n");
        find(&mut search, Cause::DnsSearch, "client", "10.0.0.2");
        let change = only(&search).change.unwrap();
        assert_eq!(change.command.unwrap(), "echo 'options ndots:1' >> /etc/resolv.conf");
        assert_eq!(change.undo, "sed -i '/^options ndots:1$/d' /etc/resolv.conf");
        let mut no_list = facts("nameserver 10.0.0.2\n");
        find(&mut no_list, Cause::DnsSearch, "client", "10.0.0.2");
        assert_eq!(loud(&no_list), [], "there is no list here");
    }
}
