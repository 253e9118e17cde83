//! Limits SYNs per source by nftables, in a table of its own (nft(8)). The rule applies before the
//! kernel keeps state for a SYN, and an undo deletes the table. A source is an IPv4 address, or the
//! /64 of an IPv6 address, since one host usually has a whole /64.

use std::io;
use std::process::Command;

use super::error::TreatError;
use super::host::Restored;
use super::record::FilterChange;
use crate::netns::Netns;

/// Largest number of counted source addresses of each IP version; further ones pass.
const SOURCES_MAX: u32 = 65_536;

/// Plans the table for a port; nothing else has its name.
pub(super) fn plan(netns: &Netns, port: u16, syns_per_second: u32) -> FilterChange {
    FilterChange {
        netns: netns.inode,
        netns_name: netns.name.clone(),
        table: format!("tcpwhy_syn_{port}"),
        port,
        syns_per_second,
    }
}

/// Returns the rules in the language of nft. A burst of one second's SYNs is accepted.
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
        "table inet {table} {{\n{}{}{chain}{}{}}}\n}}\n",
        set("sources4", "ipv4_addr"),
        set("sources6", "ipv6_addr"),
        rule("sources4", "ip saddr"),
        rule("sources6", "ip6 saddr & ffff:ffff:ffff:ffff::")
    )
}

pub(super) fn make(change: &FilterChange) -> Result<(), TreatError> {
    let refused = |error: io::Error| match error.kind() {
        io::ErrorKind::NotFound => TreatError::NoNft,
        _ => TreatError::Filter { said: error.to_string() },
    };
    let Some(netns) = Netns::with_inode(change.netns) else {
        return Err(TreatError::Filter { said: "its network namespace is gone".into() });
    };
    nft(&netns, &[&rules(change)]).map(drop).map_err(refused)
}

/// Returns the number of SYNs that the filter has dropped.
pub(super) fn dropped(change: &FilterChange) -> u64 {
    let Some(netns) = Netns::with_inode(change.netns) else { return 0 };
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
    let Some(netns) = Netns::with_inode(change.netns) else { return Ok(Restored::Gone) };
    let table = change.table.as_str();
    if nft(&netns, &["list", "table", "inet", table]).is_err() {
        return Ok(Restored::Gone);
    }
    nft(&netns, &["delete", "table", "inet", table]).map(|_| Restored::Done)
}

/// Runs `nft` in a network namespace.
fn nft(netns: &Netns, arguments: &[&str]) -> io::Result<String> {
    let run = || Command::new("nft").args(arguments).output();
    let output = netns.inside(run).map_err(io::Error::other)??;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    Err(io::Error::other(said.lines().next().unwrap_or("nft failed").to_owned()))
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
    fn the_rules_count_each_source_on_its_own() {
        let change = plan(&Netns::own(), 8080, 50);
        let rules = rules(&change);
        assert!(rules.starts_with("table inet tcpwhy_syn_8080 {"), "{rules}");
        assert!(rules.contains("@sources4 { ip saddr limit rate over 50/second"), "{rules}");
        assert_eq!(rules.matches('{').count(), rules.matches('}').count(), "{rules}");
    }
}
