//! Memory of all TCP sockets together, and drops for lack of it.

use tcpwhy_core::model::Cause;
use tcpwhy_core::model::units::{bytes, count};

use super::Check;
use crate::entry::{Entry, Layer, Rank};
use crate::facts::{Facts, state};

pub const CHECKS: &[Check] = &[
    Check { id: "tcp_mem", layer: Layer::Transport, judge: pressure },
    Check { id: "receive_queue_pruned", layer: Layer::Transport, judge: pruned },
];

/// Size of a page; the kernel counts TCP's memory in pages.
const PAGE_BYTES: u64 = 4_096;

fn pressure(check: &Check, facts: &Facts) -> Vec<Entry> {
    let [low, middle, most] = facts.sysctls.numbers("net.ipv4.tcp_mem")[..] else {
        return Vec::new();
    };
    let now = facts.sockstat.of("TCP.mem");
    let value = format!(
        "{} in use; pressure from {}, limit {}",
        bytes(now * PAGE_BYTES),
        bytes(middle * PAGE_BYTES),
        bytes(most * PAGE_BYTES)
    );
    let why = "above the second value the kernel shrinks windows and buffers of all connections, \
               above the third it drops";
    let entry = check.entry("memory of all TCP sockets (net.ipv4.tcp_mem)", value, why);
    let mut evidence = facts.all_grown(&["TcpExt.TCPMemoryPressures", "TcpExt.TCPAbortOnMemory"]);
    if now >= middle {
        evidence.push(state(format!(
            "{} pages in use, pressure from {}",
            count(now),
            count(middle)
        )));
    }
    let more = format!("{} {} {}", low * 2, middle * 2, most * 2);
    let what = "find the sockets that hold it (`tcpwhy sockets` shows queues: a program that does \
                not read, a peer that does not take); allow more until then";
    let risk = "it cannot be swapped: leave enough for programs";
    let change = facts.sysctls.change("net.ipv4.tcp_mem", &more, what, risk);
    let causes = [Cause::ReceiveWindow, Cause::SendBuffer];
    vec![entry.explains(&causes, evidence).ranked(Rank::Limit).change(change)]
}

fn pruned(check: &Check, facts: &Facts) -> Vec<Entry> {
    let counters =
        ["TcpExt.PruneCalled", "TcpExt.RcvPruned", "TcpExt.OfoPruned", "TcpExt.TCPRcvQDrop"];
    let evidence = facts.all_grown(&counters);
    if evidence.is_empty() {
        return Vec::new();
    }
    let [low, start, most] = facts.sysctls.numbers("net.ipv4.tcp_rmem")[..] else {
        return Vec::new();
    };
    let value = format!("tcp_rmem {low} {start} {most}");
    let why = "received data filled its buffer before the program read it; the kernel squeezed it \
               (PruneCalled) or threw it away (RcvPruned), and the peer sends it again";
    let what =
        "let the program read faster, or not fix a small SO_RCVBUF; else allow larger buffers";
    let larger = format!("{low} {start} {}", (most * 4).min(64 << 20));
    let risk = "memory: each busy connection may take so much";
    let change = facts.sysctls.change("net.ipv4.tcp_rmem", &larger, what, risk);
    let entry = check.entry("receive queues at their limit", value, why);
    vec![entry.explains(&[Cause::ReceiveWindow], evidence).change(change)]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::judge::tests::{grow, idle, loud, only};

    #[test]
    fn pressure_is_named_while_it_lasts() {
        let mut facts = idle();
        facts.sockstat.set("TCP.mem", 119_999);
        assert_eq!(loud(&facts), []);
        facts.sockstat.set("TCP.mem", 120_000);
        assert_eq!(only(&facts).check, "tcp_mem");
    }

    #[test]
    fn squeezed_queues_are_named() {
        let mut facts = idle();
        grow(&mut facts, "TcpExt.PruneCalled", 40);
        assert_eq!(only(&facts).explains, [Cause::ReceiveWindow]);
    }
}
