//! Limits SYNs per source by nftables, in a table of its own (nft(8)). The rule applies before the
//! kernel keeps state for a SYN, and an undo deletes the table. A source is an IPv4 address, or the
//! /64 of an IPv6 address, since one host usually has a whole /64.

use std::io;

use super::error::TreatError;
use super::helper;
use super::host::Restored;
use super::namespace::Namespace;
use super::record::FilterChange;
use tcpwhy_live::netns::Netns;

/// Largest number of counted source addresses of each IP version; further ones pass.
const SOURCES_MAX: u32 = 65_536;

/// Plans the table for a port. Nothing else may have its name: an undo removes it.
pub(super) fn plan(
    netns: &Netns,
    port: u16,
    syns_per_second: u32,
) -> Result<FilterChange, TreatError> {
    let table = format!("tcpwhy_syn_{port}");
    // Without the right to list tables none can be made either, which is said then.
    if listed(netns, &table).is_ok_and(|listed| listed.is_some()) {
        return Err(TreatError::TableExists { table });
    }
    let namespace = Namespace::of(netns)?;
    Ok(FilterChange { namespace, table, port, syns_per_second, made: None })
}

/// Returns the rules in the language of nft, in one transaction that fails if the table exists. A burst of one second's SYNs is accepted.
fn rules(change: &FilterChange) -> String {
    let FilterChange { table, port, syns_per_second, .. } = change;
    let set = |name: &str, kind: &str| {
        format!(
            "set {name} {{ type {kind}; size {SOURCES_MAX}; flags dynamic,timeout; timeout 10s; }}\n"
        )
    };
    let rule = |set: &str, source: &str| {
        format!(
            "tcp dport {port} tcp flags & (fin|syn|rst|ack) == syn update @{set} {{ {source} limit \
             rate over {syns_per_second}/second burst {syns_per_second} packets }} counter drop\n"
        )
    };
    // The rule comes before connection tracking, which would keep an entry for each SYN.
    let chain = "chain syn { type filter hook prerouting priority -300; policy accept;\n";
    format!(
        "create table inet {table}\ntable inet {table} {{\n{}{}{chain}{}{}}}\n}}\n",
        set("sources4", "ipv4_addr"),
        set("sources6", "ipv6_addr"),
        rule("sources4", "ip saddr"),
        rule("sources6", "ip6 saddr & ffff:ffff:ffff:ffff::")
    )
}

/// Makes the table, and returns the change with the table as nft lists it. If it fails, nothing is
/// made.
pub(super) fn make(change: &FilterChange) -> Result<FilterChange, TreatError> {
    let refused = |error: io::Error| match error.kind() {
        io::ErrorKind::NotFound => TreatError::NoNft,
        _ => TreatError::Filter { said: error.to_string() },
    };
    let netns = change.namespace.open().map_err(refused)?;
    nft(&netns, &[&rules(change)]).map_err(refused)?;
    // Without the list, an undo cannot tell whether others have changed the table.
    let made = listed(&netns, &change.table).unwrap_or_default();
    Ok(FilterChange { made, ..change.clone() })
}

/// Returns a table without what it counts; `None` if there is none.
fn listed(netns: &Netns, table: &str) -> io::Result<Option<String>> {
    match nft(netns, &["--stateless", "list", "table", "inet", table]) {
        Ok(said) => Ok(Some(without_elements(&said))),
        Err(error) if is_no_table(&error) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Returns whether the kernel has no table of this name. Nothing else that nft says proves that.
fn is_no_table(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::Other && error.to_string().ends_with("No such file or directory")
}

/// Returns the output of nft in one line, without the elements of sets.
fn without_elements(said: &str) -> String {
    let mut text = said.to_owned();
    while let Some(begin) = text.find("elements = {") {
        let end = text[begin..].find('}').map_or(text.len(), |end| begin + end + 1);
        text.replace_range(begin..end, "");
    }
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Returns the number of SYNs that the filter has dropped.
pub(super) fn dropped(change: &FilterChange) -> u64 {
    let Ok(Some(netns)) = change.namespace.find() else { return 0 };
    let said = nft(&netns, &["list", "table", "inet", &change.table]).unwrap_or_default();
    counted(&said)
}

/// Returns the number of packets of all counters in the output of nft.
fn counted(said: &str) -> u64 {
    let words: Vec<&str> = said.split_whitespace().collect();
    let counters = words.windows(3).filter(|three| three[..2] == ["counter", "packets"]);
    counters.filter_map(|three| three[2].parse::<u64>().ok()).sum()
}

pub(super) fn restore(change: &FilterChange) -> io::Result<Restored> {
    let Some(netns) = change.namespace.find()? else { return Ok(Restored::Gone) };
    let table = change.table.as_str();
    let Some(now) = listed(&netns, table)? else { return Ok(Restored::Gone) };
    if change.made.as_ref().is_some_and(|made| *made != now) {
        return Ok(Restored::ChangedMeanwhile { now: format!("`{now}`") });
    }
    nft(&netns, &["delete", "table", "inet", table]).map(|_| Restored::Done)
}

/// Runs `nft` in a network namespace.
fn nft(netns: &Netns, arguments: &[&str]) -> io::Result<String> {
    helper::run(netns, "nft", arguments)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_are_read_from_what_nft_prints() {
        let rule = "limit rate over 5/second } counter packets 17 bytes 680 drop\n";
        assert_eq!(counted(&[rule, rule].concat()), 34);
        assert_eq!(counted("table inet tcpwhy_syn_80 {\n}\n"), 0);
    }

    #[test]
    fn elements_of_sets_are_no_part_of_a_table_that_is_compared() {
        let said = "table inet t {\n\tset s {\n\t\ttype ipv4_addr\n\t\telements = { 10.0.0.1 limit \
                    rate over 5/second,\n\t\t\t10.0.0.2 }\n\t}\n}\n";
        assert_eq!(without_elements(said), "table inet t { set s { type ipv4_addr } }");
        let said = |words: &str| is_no_table(&io::Error::other(words.to_owned()));
        assert!(said("Error: No such file or directory"));
        assert!(!said("Error: Operation not permitted"));
        assert!(!is_no_table(&io::Error::new(
            io::ErrorKind::NotFound,
            "No such file or directory"
        )));
    }

    #[test]
    fn the_rules_count_each_source_on_its_own() {
        let namespace = Namespace::default();
        let table = "tcpwhy_syn_8080".into();
        let change = FilterChange { namespace, table, port: 8080, syns_per_second: 50, made: None };
        let rules = rules(&change);
        assert!(rules.starts_with("create table inet tcpwhy_syn_8080\n"), "{rules}");
        assert!(rules.contains("@sources4 { ip saddr limit rate over 50/second"), "{rules}");
        assert_eq!(rules.matches('{').count(), rules.matches('}').count(), "{rules}");
    }
}
