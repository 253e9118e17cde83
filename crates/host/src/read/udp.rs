//! Datagrams that UDP sockets drop: the last column of `/proc/net/udp` (udp(7)).

use std::collections::HashMap;
use std::fs;

/// Drops by inode, with the bound port.
pub type Drops = HashMap<u32, (u16, u64)>;

/// Reads both IP versions in the calling thread's namespace.
pub fn read() -> Drops {
    let mut drops = Drops::new();
    for name in ["udp", "udp6"] {
        let text = fs::read_to_string(format!("/proc/thread-self/net/{name}"));
        drops.extend(text.unwrap_or_default().lines().skip(1).filter_map(parse));
    }
    drops
}

fn parse(line: &str) -> Option<(u32, (u16, u64))> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let port = u16::from_str_radix(words.get(1)?.rsplit_once(':')?.1, 16).ok()?;
    Some((words.get(9)?.parse().ok()?, (port, words.get(12)?.parse().ok()?)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drops_stand_in_the_last_column() {
        let line = " 3142: 00000000:14E9 00000000:0000 07 00000000:00000000 00:00000000 00000000 \
                    0        0 4242 2 0000000000000000 17";
        assert_eq!(parse(line), Some((4_242, (5_353, 17))));
    }
}
