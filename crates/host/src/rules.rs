//! Packet filter and translation of addresses, in summary.

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
}

/// Counts the rules of `nft list ruleset`, or of `iptables -S` (whose rules begin with `-A`).
pub fn summary(program: &str, text: &str) -> Source {
    let mut source = Source { program: program.to_owned(), ..Source::default() };
    let is_nft = program == "nft";
    for line in text.lines().map(str::trim) {
        let is_rule = if is_nft {
            let no_rule = ["table ", "chain ", "type ", "}", "#", "set ", "map ", "elements"];
            !line.is_empty() && !no_rule.iter().any(|start| line.starts_with(start))
        } else {
            line.starts_with("-A ")
        };
        if !is_rule {
            continue;
        }
        source.rules += 1;
        let has = |words: &[&str]| line.split([' ', ';', ',']).any(|word| words.contains(&word));
        if has(&[
            "dnat",
            "snat",
            "masquerade",
            "redirect",
            "DNAT",
            "SNAT",
            "MASQUERADE",
            "REDIRECT",
        ]) {
            source.nat += 1;
            source.nat_example.get_or_insert_with(|| line.to_owned());
        }
        source.drops += u64::from(has(&["drop", "reject", "DROP", "REJECT"]));
        source.tracks += u64::from(has(&["ct", "--ctstate", "conntrack", "--state", "CONNMARK"]));
    }
    source
}

impl Rules {
    /// Returns a sum over all sources.
    pub fn sum(&self, of: impl Fn(&Source) -> u64) -> u64 {
        self.sources.iter().map(of).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_are_counted_by_what_they_do() {
        let nft = "table ip nat {\n\tchain PREROUTING {\n\t\ttype nat hook prerouting priority \
                   dstnat; policy accept;\n\t\ttcp dport 80 counter packets 0 bytes 0 dnat to \
                   10.0.0.5:8080\n\t}\n}\ntable ip filter {\n\tchain INPUT {\n\t\tct state invalid \
                   counter packets 0 bytes 0 drop\n\t}\n}\n";
        let found = summary("nft", nft);
        assert_eq!((found.rules, found.nat, found.drops, found.tracks), (2, 1, 1, 1));
        assert!(found.nat_example.unwrap().contains("dnat to 10.0.0.5:8080"));
        let legacy = "-P INPUT ACCEPT\n-A INPUT -m conntrack --ctstate INVALID -j DROP\n";
        let found = summary("iptables", legacy);
        assert_eq!((found.rules, found.nat, found.drops, found.tracks), (1, 0, 1, 1));
    }
}
