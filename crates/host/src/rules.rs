//! Packet filter and translation of addresses: rules in summary, and those that drop.
//! Read first: nft(8), iptables(8).

use std::collections::BTreeMap;

use crate::entry::quoted;

/// Rules that filter and translate packets in the namespace.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Rules {
    /// Programs that listed the rules, with their output: `nft`, `iptables-legacy`.
    pub sources: Vec<Source>,
    /// Reasons why sources could not be read.
    pub unread: Vec<String>,
}

/// The rules of one packet filter.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Source {
    /// The program that listed them.
    pub program: String,
    /// Number of rules.
    pub rules: u64,
    /// Number of rules that translate addresses (DNAT, SNAT, masquerade, redirect).
    pub nat: u64,
    /// Number of rules that drop or reject.
    pub drops: u64,
    /// Number of rules that need connection tracking.
    pub tracks: u64,
    /// One of the rules that translate addresses.
    pub nat_example: Option<String>,
    /// The rules that drop or reject.
    pub dropping: Vec<DropRule>,
}

/// A rule that drops or rejects packets.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DropRule {
    /// Its chain: `ip filter INPUT`, `filter INPUT`.
    pub chain: String,
    /// The rule, as it is written, without its counter.
    pub text: String,
    /// `true` if the sender gets an error (`reject`), `false` if nothing.
    pub rejects: bool,
    /// `true` if its chain is passed by packets that this host sends.
    pub is_output: bool,
    /// Packets that it dropped so far; `None` where the rule has no counter.
    pub packets: Option<u64>,
    /// Packets that it dropped during the sample.
    pub grew_by: u64,
    /// Commands that remove it and put it back; `None` for a policy, and where the program that
    /// listed it could not write it again.
    pub commands: Option<(String, String)>,
    /// What tells it from other rules.
    id: String,
}

/// Returns the words of a rule outside of strings: comments and prefixes of log lines say anything.
pub fn words(rule: &str) -> impl Iterator<Item = &str> {
    let parts = rule.split('"').step_by(2);
    parts.flat_map(|part| part.split([' ', ';', ',', '{', '}'])).filter(|word| !word.is_empty())
}

impl Source {
    /// Adds a rule.
    fn add(&mut self, text: &str) {
        let has = |wanted: &[&str]| words(text).any(|word| wanted.contains(&word));
        self.rules += 1;
        let nat = ["dnat", "snat", "masquerade", "redirect"];
        let is_nat = |word: &str| nat.contains(&&*word.to_ascii_lowercase());
        if words(text).any(is_nat) {
            self.nat += 1;
            self.nat_example.get_or_insert_with(|| text.to_owned());
        }
        self.drops += u64::from(has(&["drop", "reject", "DROP", "REJECT"]));
        self.tracks += u64::from(has(&["ct", "--ctstate", "conntrack", "--state", "CONNMARK"]));
    }
}

/// Reads `nft --handle list ruleset`.
pub fn nft(text: &str) -> Source {
    let mut source = Source { program: "nft".to_owned(), ..Source::default() };
    let mut table = String::new();
    // The block that a line is in: `chain INPUT`, `counter web`, `set allowed` …
    let mut blocks: Vec<String> = Vec::new();
    let mut is_output = false;
    let mut counters: BTreeMap<String, u64> = BTreeMap::new();
    let mut before: Option<String> = None;
    for line in text.lines().map(str::trim) {
        let (line, handle) = match line.rsplit_once(" # handle ") {
            Some((line, handle)) => (line.trim(), Some(handle)),
            None => (line, None),
        };
        if let Some(block) = line.strip_suffix('{') {
            let block = block.trim();
            if let Some(name) = block.strip_prefix("table ") {
                name.clone_into(&mut table);
            }
            (is_output, before) = (false, None);
            blocks.push(block.to_owned());
            continue;
        }
        let Some((kind, name)) = blocks.last().and_then(|block| block.split_once(' ')) else {
            continue;
        };
        match (line, kind) {
            ("}", _) => {
                blocks.pop();
            }
            (_, "counter") => {
                counters.extend(packets(line).map(|(it, _)| (format!("{table} {name}"), it)));
            }
            (_, "chain") if line.starts_with("type ") => {
                is_output = line.contains(" hook output ");
            }
            (_, "chain") if !line.is_empty() && !line.starts_with('#') => {
                source.add(line);
                let chain = format!("{table} {name}");
                let rule = nft_drop(line, &chain, handle, before.as_deref());
                source.dropping.extend(rule.map(|rule| DropRule { is_output, ..rule }));
                before = handle.map(str::to_owned);
            }
            _ => {}
        }
    }
    for rule in &mut source.dropping {
        let mut named = rule.text.split("counter name \"").skip(1);
        if let Some(name) = named.next().and_then(|rest| rest.split('"').next()) {
            let table = rule.chain.rsplit_once(' ').map_or("", |(table, _)| table);
            rule.packets = counters.get(&format!("{table} {name}")).copied();
        }
    }
    source
}

/// Parses `packets 7 bytes 420 …`: the number of packets, and what follows.
fn packets(text: &str) -> Option<(u64, &str)> {
    let (packets, rest) = text.strip_prefix("packets ")?.split_once(" bytes ")?;
    let after = rest.split_once(' ').map_or("", |(_, after)| after);
    Some((packets.parse().ok()?, after))
}

fn nft_drop(
    line: &str,
    chain: &str,
    handle: Option<&str>,
    before: Option<&str>,
) -> Option<DropRule> {
    let has = |wanted: &str| words(line).any(|word| word == wanted);
    // The counter of a rule with a verdict map counts what the map accepts as well.
    if !(has("drop") || has("reject")) || has("vmap") {
        return None;
    }
    let (text, packets) = match line.split_once("counter packets ") {
        Some((matches, rest)) => {
            let (packets, after) = packets(&format!("packets {rest}"))
                .map(|(packets, after)| (packets, after.to_owned()))?;
            // Conditions behind the counter let packets pass that it has counted.
            let counts_drops = ["drop", "reject", "log"].iter().any(|it| after.starts_with(it));
            (format!("{matches}counter {after}"), counts_drops.then_some(packets))
        }
        None => (line.to_owned(), None),
    };
    let is_writable = !words(line).any(|word| word == "xt");
    let commands = handle.filter(|_| is_writable).map(|handle| {
        let restore = match before {
            Some(before) => format!("add rule {chain} handle {before} {text}"),
            None => format!("insert rule {chain} {text}"),
        };
        let delete = format!("delete rule {chain} handle {handle}");
        (format!("nft {}", quoted(&delete)), format!("nft {}", quoted(&restore)))
    });
    Some(DropRule {
        chain: chain.to_owned(),
        rejects: has("reject"),
        packets,
        commands,
        id: format!("{chain} {}", handle.unwrap_or(&text)),
        text,
        ..DropRule::default()
    })
}

/// Reads `iptables-legacy -t TABLE -v -S`: rules such as `-A INPUT -p tcp -c 7 420 -j DROP`, and
/// policies such as `-P INPUT DROP -c 7 420`.
pub fn iptables(program: &str, table: &str, text: &str) -> Source {
    let mut source = Source { program: format!("{program} {table}"), ..Source::default() };
    let mut places: BTreeMap<&str, u64> = BTreeMap::new();
    for line in text.lines().map(str::trim) {
        let mut head = line.splitn(3, ' ');
        let (Some(kind @ ("-A" | "-P")), Some(name), Some(rest)) =
            (head.next(), head.next(), head.next())
        else {
            continue;
        };
        let is_policy = kind == "-P";
        if !is_policy {
            source.add(line);
            *places.entry(name).or_default() += 1;
        }
        let has = |wanted: &str| words(rest).any(|word| word == wanted);
        if !(has("DROP") || has("REJECT")) {
            continue;
        }
        let all: Vec<&str> = rest.split(' ').collect();
        let counter = all.iter().position(|word| *word == "-c");
        let mut spec = all.clone();
        if let Some(at) = counter.filter(|at| at + 3 <= all.len()) {
            spec.drain(at..at + 3);
        }
        let spec = spec.join(" ");
        let place = places.get(name).copied().unwrap_or(0);
        let commands = (!is_policy).then(|| {
            let start = format!("{program} -t {table}");
            (format!("{start} -D {name} {spec}"), format!("{start} -I {name} {place} {spec}"))
        });
        source.dropping.push(DropRule {
            chain: format!("{table} {name}"),
            rejects: has("REJECT"),
            is_output: name == "OUTPUT",
            packets: counter.and_then(|at| all.get(at + 1)?.parse().ok()),
            commands,
            id: format!("{program} {table} {name} {place} {spec}"),
            text: if is_policy { format!("policy {spec}") } else { spec },
            ..DropRule::default()
        });
    }
    source
}

impl Rules {
    /// Returns a sum over all sources.
    pub fn sum(&self, of: impl Fn(&Source) -> u64) -> u64 {
        self.sources.iter().map(of).sum()
    }

    /// Returns all rules that drop or reject.
    pub fn dropping(&self) -> impl Iterator<Item = &DropRule> {
        self.sources.iter().flat_map(|source| &source.dropping)
    }

    /// Sets how much the counter of each rule grew since `before` was read. A rule that was added
    /// or changed since has not grown.
    pub fn compare(&mut self, before: &Self) {
        let past: BTreeMap<&str, u64> =
            before.dropping().filter_map(|rule| Some((&*rule.id, rule.packets?))).collect();
        for rule in self.sources.iter_mut().flat_map(|source| &mut source.dropping) {
            let then = past.get(&*rule.id).copied();
            rule.grew_by = rule.packets.zip(then).map_or(0, |(now, then)| now.saturating_sub(then));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `nft --handle list ruleset` with rules of iptables-nft and of nft.
    const NFT: &str = "\
table ip filter { # handle 1
	chain INPUT { # handle 1
		type filter hook input priority filter; policy accept;
		tcp dport 8080 counter packets 7 bytes 420 drop # handle 2
		ct state invalid counter packets 0 bytes 0 drop # handle 4
	}

	chain OUTPUT { # handle 5
		type filter hook output priority filter; policy accept;
		ip daddr 10.9.9.9  counter packets 3 bytes 180 reject # handle 6
	}
}
table inet t { # handle 2
	counter cnt { # handle 5
		packets 9 bytes 540
	}

	set hosts { # handle 9
		type ipv4_addr
		elements = { 10.0.0.1 }
	}

	chain c { # handle 1
		type filter hook input priority filter; policy drop;
		tcp dport { 22, 80 } counter packets 5 bytes 300 log prefix \"drop it\" drop # handle 3
		udp dport 53 limit rate over 5/second drop # handle 4
		tcp dport 99 counter name \"cnt\" reject with tcp reset # handle 6
		counter packets 1000 bytes 60000 tcp dport 25 drop # handle 7
		tcp dport vmap { 22 : accept, 23 : drop } # handle 8
		ip saddr 10.0.0.9 accept comment \"never drop\" # handle 10
	}
}
";

    #[test]
    fn rules_of_nft_are_counted_by_what_they_do() {
        let source = nft(NFT);
        assert_eq!((source.rules, source.drops, source.tracks, source.nat), (9, 8, 1, 0));
        let shown: Vec<_> =
            source.dropping.iter().map(|it| (&*it.chain, &*it.text, it.packets)).collect();
        let t = "inet t c";
        assert_eq!(
            shown,
            [
                ("ip filter INPUT", "tcp dport 8080 counter drop", Some(7)),
                ("ip filter INPUT", "ct state invalid counter drop", Some(0)),
                ("ip filter OUTPUT", "ip daddr 10.9.9.9  counter reject", Some(3)),
                (t, "tcp dport { 22, 80 } counter log prefix \"drop it\" drop", Some(5)),
                (t, "udp dport 53 limit rate over 5/second drop", None),
                (t, "tcp dport 99 counter name \"cnt\" reject with tcp reset", Some(9)),
                (t, "counter tcp dport 25 drop", None),
            ]
        );
        let outputs = source.dropping.iter().map(|it| it.is_output);
        assert_eq!(outputs.filter(|it| *it).count(), 1);
        let nat = "table ip nat {\n\tchain PREROUTING {\n\t\ttcp dport 80 counter packets 0 bytes \
                   0 dnat to 10.0.0.5:8080\n\t}\n}\n";
        assert!(nft(nat).nat_example.unwrap().contains("dnat to 10.0.0.5:8080"));
    }

    #[test]
    fn a_rule_of_nft_is_put_back_where_it_was() {
        let rules = nft(NFT).dropping;
        let (delete, restore) = rules[0].commands.clone().unwrap();
        assert_eq!(delete, "nft 'delete rule ip filter INPUT handle 2'");
        assert_eq!(restore, "nft 'insert rule ip filter INPUT tcp dport 8080 counter drop'");
        let (_, restore) = rules[1].commands.clone().unwrap();
        let after = "nft 'add rule ip filter INPUT handle 2 ct state invalid counter drop'";
        assert_eq!(restore, after);
    }

    #[test]
    fn rules_of_iptables_are_counted_with_their_policy() {
        let text = "-P INPUT DROP -c 5 300\n-P OUTPUT ACCEPT -c 0 0\n\
                    -A INPUT -m conntrack --ctstate INVALID -c 7 420 -j DROP\n\
                    -A INPUT -p tcp -m tcp --dport 22 -c 1 60 -j ACCEPT\n\
                    -A OUTPUT -d 10.9.9.9/32 -m comment --comment \"no DROP\" -c 2 120 -j REJECT \
                    --reject-with icmp-port-unreachable\n";
        let source = iptables("iptables-legacy", "filter", text);
        assert_eq!((source.rules, source.drops, source.tracks), (3, 2, 1));
        let shown: Vec<_> =
            source.dropping.iter().map(|it| (&*it.text, it.packets.unwrap())).collect();
        assert_eq!(shown[0], ("policy DROP", 5));
        assert_eq!(shown[1], ("-m conntrack --ctstate INVALID -j DROP", 7));
        assert_eq!(shown[2].1, 2);
        assert_eq!(source.dropping[0].commands, None);
        let (delete, restore) = source.dropping[1].commands.clone().unwrap();
        let rule = "-m conntrack --ctstate INVALID -j DROP";
        assert_eq!(delete, format!("iptables-legacy -t filter -D INPUT {rule}"));
        assert_eq!(restore, format!("iptables-legacy -t filter -I INPUT 1 {rule}"));
    }

    #[test]
    fn only_counters_that_were_there_before_grow() {
        let with = |text: &str| Rules { sources: vec![nft(text)], unread: Vec::new() };
        let mut after = with(&NFT.replace("packets 7 ", "packets 19 "));
        after.compare(&with(NFT));
        let grown: Vec<_> = after.dropping().map(|it| it.grew_by).collect();
        assert_eq!(grown, [12, 0, 0, 0, 0, 0, 0]);
        after.compare(&Rules::default());
        assert!(after.dropping().all(|it| it.grew_by == 0), "a rule that is new");
    }
}
