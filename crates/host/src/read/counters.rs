//! Reads the counters of the calling thread's namespace.

use std::io;

use super::net;
use tcpwhy_live::counters::Counters;
use tcpwhy_live::link::Link;
use tcpwhy_live::route::Route;

/// Reads all counters, and the interfaces that some of them belong to.
pub fn read() -> (Counters, io::Result<Vec<Link>>) {
    let mut counters = Counters::default();
    for name in ["snmp", "netstat"] {
        counters.add_pairs(&net(name));
    }
    counters.add_columns("nf_conntrack", &net("stat/nf_conntrack"));
    counters.add_columns("arp_cache", &net("stat/arp_cache"));
    counters.add_columns("ndisc_cache", &net("stat/ndisc_cache"));
    counters.add_softnet(&net("softnet_stat"));
    let links = Route::open().and_then(|mut route| route.links(&mut counters));
    (counters, links)
}

/// Parses `/proc/net/sockstat`: lines such as `TCP: inuse 5 orphan 0 tw 0 alloc 7 mem 1`.
pub fn sockstat() -> Counters {
    parse(&net("sockstat"))
}

fn parse(text: &str) -> Counters {
    let mut counters = Counters::default();
    for line in text.lines() {
        let Some((table, rest)) = line.split_once(": ") else { continue };
        let words: Vec<&str> = rest.split_whitespace().collect();
        for pair in words.chunks_exact(2) {
            if let Ok(value) = pair[1].parse() {
                counters.set(&format!("{table}.{}", pair[0]), value);
            }
        }
    }
    counters
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sockstat_is_read_by_name() {
        let counters = parse("sockets: used 9\nTCP: inuse 5 orphan 2 tw 0 alloc 7 mem 1\n");
        assert_eq!((counters.of("TCP.orphan"), counters.of("sockets.used")), (2, 9));
    }
}
