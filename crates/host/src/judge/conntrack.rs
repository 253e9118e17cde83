//! Connection tracking and the rules that need it. Read first: Documentation/networking/
//! nf_conntrack-sysctl.rst; in the kernel `__nf_conntrack_alloc` (table full) and
//! `__nf_conntrack_confirm` (two packets race for one entry).

use tcpwhy_core::model::Cause;
use tcpwhy_core::model::units::{count, share};

use super::Check;
use crate::entry::{Change, Entry, Layer, Rank};
use crate::facts::{Facts, reported, state};

pub const CHECKS: &[Check] = &[
    Check { id: "nf_conntrack_max", layer: Layer::Network, judge: table },
    Check { id: "nf_conntrack_race", layer: Layer::Network, judge: race },
    Check { id: "nf_conntrack_timeouts", layer: Layer::Network, judge: timeouts },
    Check { id: "packet_filter", layer: Layer::Network, judge: rules },
];

const MAX: &str = "net.netfilter.nf_conntrack_max";

/// Entries now and at most, where the namespace tracks connections.
fn use_of(facts: &Facts) -> Option<(u64, u64)> {
    let now = facts.sysctls.number("net.netfilter.nf_conntrack_count")?;
    Some((now, facts.sysctls.number(MAX)?))
}

/// Returns whether the table is full: from a twentieth below its limit on, since entries come and
/// go.
fn is_full((now, most): (u64, u64)) -> bool {
    now + most / 20 >= most
}

fn table(check: &Check, facts: &Facts) -> Vec<Entry> {
    let Some((now, most)) = use_of(facts) else { return Vec::new() };
    let part = share(now as f64 / most.max(1) as f64);
    let value = format!("{} of {} entries ({part})", count(now), count(most));
    let why = "each tracked connection takes an entry; when the table is full, the kernel drops \
               the first packet of every new connection without a word to its sender";
    let entry = check.entry("table of tracked connections", value, why);
    let mut evidence = facts.all_grown(&["nf_conntrack.drop", "nf_conntrack.early_drop"]);
    let is_at_limit = now >= most;
    if !is_full((now, most)) || evidence.is_empty() && !is_at_limit {
        evidence.clear();
    } else if is_at_limit {
        evidence.push(state(format!("the table holds {} of {}", count(now), count(most))));
    }
    if is_full((now, most)) || !evidence.is_empty() {
        evidence.extend(reported(facts.near_findings(&[Cause::ConntrackFull])));
    }
    if evidence.is_empty() {
        return vec![entry];
    }
    vec![
        entry
            .explains(&[Cause::ConntrackFull], evidence)
            .ranked(Rank::Limit)
            .change(larger(facts, most)),
    ]
}

fn larger(facts: &Facts, most: u64) -> Change {
    let target = (most * 4).max(65_536);
    let mut what = String::from("allow more entries");
    let established = "net.netfilter.nf_conntrack_tcp_timeout_established";
    if let Some(seconds) = facts.sysctls.number(established).filter(|&seconds| seconds > 86_400) {
        what += &format!(
            "; idle connections keep theirs for {} days ({established}), and traffic that no rule \
             needs tracked can be exempted (`notrack`)",
            seconds / 86_400
        );
    }
    let risk =
        format!("about 320 bytes of kernel memory each ({} MiB if full)", (target * 320) >> 20);
    facts.sysctls.change(MAX, &target.to_string(), &what, &risk)
}

fn race(check: &Check, facts: &Facts) -> Vec<Entry> {
    let Some(table) = use_of(facts) else { return Vec::new() };
    let failed = facts.growth.after.of("nf_conntrack.insert_failed");
    let value = format!("insert_failed {} since the namespace was made", count(failed));
    let why = "two packets of one new flow at the same time (the A and AAAA queries of one \
               look-up) race for one entry, and the loser is dropped: the resolver waits 5 s";
    let entry = check.entry("races for entries of connection tracking", value, why);
    let mut evidence = facts.all_grown(&["nf_conntrack.insert_failed"]);
    if is_full(table) {
        evidence.clear();
    }
    if !evidence.is_empty() || facts.rules.sum(|it| it.nat) > 0 {
        evidence.extend(reported(facts.near_findings(&[Cause::ConntrackRace])));
    }
    if evidence.is_empty() {
        return vec![entry];
    }
    let nat = facts.rules.sources.iter().find_map(|it| it.nat_example.as_deref());
    let nat = nat.map(|rule| format!(" (here `{rule}`)")).unwrap_or_default();
    let change = Change::by_hand(
        format!(
            "on the hosts that ask: `options single-request-reopen` in resolv.conf, or a resolver \
             on the host itself; here: exempt UDP port 53 from tracking (`notrack`) unless a rule \
             translates it{nat}"
        ),
        "single-request-reopen makes look-ups of both address families one after the other",
        "remove the option, or the `notrack` rule, again",
    );
    vec![entry.explains(&[Cause::ConntrackRace], evidence).ranked(Rank::Limit).change(change)]
}

fn timeouts(check: &Check, facts: &Facts) -> Vec<Entry> {
    if use_of(facts).is_none() {
        return Vec::new();
    }
    let text = |name: &str| {
        let value = facts.sysctls.text(&format!("net.netfilter.nf_conntrack_{name}"));
        format!("{name} {} s", value.unwrap_or("unknown"))
    };
    let names = ["tcp_timeout_established", "tcp_timeout_time_wait", "udp_timeout"];
    let value = names.map(text).join(", ");
    let why = "an unused entry is kept for this long; an idle connection that outlives its \
               entry is reset or hangs";
    vec![check.entry("timeouts of connection tracking", value, why)]
}

fn rules(check: &Check, facts: &Facts) -> Vec<Entry> {
    let rules = &facts.rules;
    let value = if rules.sources.is_empty() {
        rules.unread.join("; ")
    } else {
        let sum = |of: fn(&crate::rules::Source) -> u64| count(rules.sum(of));
        let programs: Vec<_> = rules.sources.iter().map(|it| it.program.as_str()).collect();
        format!(
            "{} rules ({}): {} translate addresses, {} drop or reject, {} look at tracked state",
            sum(|it| it.rules),
            programs.join(", "),
            sum(|it| it.nat),
            sum(|it| it.drops),
            sum(|it| it.tracks),
        )
    };
    let why = "rules that translate addresses or look at state turn connection tracking on for all \
               traffic of the namespace";
    vec![check.entry("packet filter and NAT", value, why)]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::judge::tests::{find, grow, idle, loud, only};

    fn with(now: &str, counter: Option<&str>) -> Facts {
        let mut facts = idle();
        facts.sysctls.set("net.netfilter.nf_conntrack_count", now);
        if let Some(counter) = counter {
            grow(&mut facts, counter, 40);
        }
        facts
    }

    #[test]
    fn a_full_table_that_drops_is_named() {
        let entry = only(&with("1000", Some("nf_conntrack.drop")));
        assert_eq!(entry.explains, [Cause::ConntrackFull]);
        assert_eq!(entry.value, "1,000 of 1,000 entries (100 %)");
        let change = entry.change.unwrap();
        assert_eq!(change.command.unwrap(), "sysctl -w net.netfilter.nf_conntrack_max=65536");
        assert_eq!(change.undo, "sysctl -w net.netfilter.nf_conntrack_max=1000");
        assert_eq!(only(&with("960", Some("nf_conntrack.early_drop"))).evidence.len(), 1);
    }

    #[test]
    fn a_table_with_room_is_not() {
        assert_eq!(loud(&with("500", Some("nf_conntrack.drop"))), [], "invalid packets");
        assert_eq!(loud(&with("960", None)), [], "nothing was dropped");
    }

    #[test]
    fn a_failed_insert_is_a_race_where_there_is_room() {
        let entry = only(&with("10", Some("nf_conntrack.insert_failed")));
        assert_eq!(entry.explains, [Cause::ConntrackRace]);
        let full = only(&with("1000", Some("nf_conntrack.insert_failed")));
        assert_eq!(full.explains, [Cause::ConntrackFull]);
    }

    #[test]
    fn a_reported_full_table_is_explained_by_one_that_is_full() {
        let mut facts = with("970", None);
        find(&mut facts, Cause::ConntrackFull, "network", "10.0.0.2");
        assert_eq!(only(&facts).explains, [Cause::ConntrackFull]);
        facts.sysctls.set("net.netfilter.nf_conntrack_count", "10");
        assert_eq!(loud(&facts), []);
    }
}
