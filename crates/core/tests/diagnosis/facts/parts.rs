//! Checks the caption of each evidence frame.

use super::wire::{Datagram, Flow, Seg};
use super::{Case, fact_ns, fact_number};
use tcpwhy_core::model::Cause;
use tcpwhy_core::wire::TcpFlags;

/// "At once" is within the way from the capture to the sender and back, and what a busy host takes, ns.
const HOST_NS: u64 = 3_000_000;

/// Parts that say something of the silence, and neither begin nor end it.
const MARKS: [&str; 6] = ["ack", "ack_with_data", "duplicate_ack", "zero_window", "probe", "icmp"];

type Answer = Result<(), String>;

fn holds(condition: bool, what: &str) -> Answer {
    if condition { Ok(()) } else { Err(what.into()) }
}

/// Checks link `at` of a chain of TCP segments and returns what is untrue in it.
pub fn segment(case: &Case<'_>, flow: &Flow, at: usize) -> Answer {
    let finding = case.finding;
    let link = &finding.evidence[at];
    if case.wire.icmp.contains_key(&link.frame) {
        return holds(link.part == "icmp", "is an ICMP error");
    }
    let Some(index) = flow.index(link.frame) else {
        // Another attempt from the same port, or an earlier one.
        let others = ["continuations", "syn", "syn_again"];
        return holds(others.contains(&link.part), "is not of that connection");
    };
    let seg = &flow.segs[index];
    match (finding.cause, link.part) {
        (_, "syn") => holds(is_syn(seg), "is no SYN"),
        (_, "syn_again") => {
            holds(is_syn(seg) && flow.repeats(index), "is no SYN that was sent before")
        }
        (_, "syn_ack") => holds(is_syn_ack(seg), "is no SYN-ACK"),
        (_, "syn_ack_again") => {
            let before = flow.by(seg.from, index).any(is_syn_ack);
            holds(is_syn_ack(seg) && before, "is no SYN-ACK that was sent before")
        }
        (_, "continuations") => Ok(()),
        (_, "fin") => holds(seg.has(TcpFlags::FIN), "is no FIN"),
        (_, "reset") => holds(seg.has(TcpFlags::RST), "is no RST"),
        (Cause::SynRetransmit | Cause::AcceptQueueOverflow | Cause::PathRtt, "ack") => {
            let covers = flow
                .by(seg.from.peer(), index)
                .any(|it| is_syn_ack(it) && seg.ack.is_some_and(|ack| ack >= it.end()));
            holds(covers && !seg.has(TcpFlags::SYN), "does not acknowledge a SYN-ACK")
        }
        (Cause::ZeroWindow, "ack") => holds(opens(flow, index), "does not open the window"),
        (Cause::ReceiveWindow, "ack") => {
            holds(opens(flow, index), "does not move the edge of the window")
        }
        (_, "ack" | "ack_with_data") => acknowledges(case, flow, at, index),
        (_, "duplicate_ack") => reports_hole(flow, index),
        (_, "zero_window") => holds(
            seg.has(TcpFlags::ACK)
                && seg.window.is_none_or(|window| window < flow.mss(seg.from.peer()).max(2)),
            "does not close the window",
        ),
        (_, "probe") => {
            let edge = flow.by(seg.from.peer(), index).filter_map(edge).max();
            let beyond = edge.is_none_or(|edge| seg.end() >= edge);
            let below = seg.at < flow.sent(seg.from, index);
            holds(beyond || below, "lies within the window")
        }
        (_, "lost") => was_lost(case, flow, at, index),
        (_, "retransmission") => sent_again(case, flow, at, index),
        (_, "smaller") => {
            // The original may have been lost before the capture.
            let most = flow.by(seg.from, flow.segs.len()).map(|it| it.len).max().unwrap_or(0);
            let said = fact_number(finding, "lost_bytes").unwrap_or(most);
            holds(seg.len < said.max(most), "is not smaller")
        }
        (_, "original") => {
            let again = flow.segs[index + 1..]
                .iter()
                .any(|it| it.from == seg.from && it.at < seg.end() && seg.at < it.end());
            holds(again, "is not sent again")
        }
        (_, "early") => Ok(()),
        (Cause::Http100Continue, "late") => Ok(()),
        (_, "late") => {
            let overtook = flow.by(seg.from, index).any(|it| it.at >= seg.end());
            holds(overtook && !flow.repeats(index), "was not overtaken, or had been sent before")
        }
        (_, "last_seen") => {
            holds(index + 1 == flow.segs.len(), "is not the last that was captured")
        }
        (_, "left") => holds(
            seg.has(TcpFlags::FIN) || seg.has(TcpFlags::RST) || seg.len > 0,
            "neither closes nor says anything",
        ),
        (_, "end") => {
            holds(seg.has(TcpFlags::FIN) || seg.has(TcpFlags::RST), "does not end the connection")
        }
        (Cause::ServerThink | Cause::ClientThink | Cause::TlsHandshake, "flight_end") => Ok(()),
        (
            _,
            "flight_end" | "said_before" | "flight_rest" | "full_flight_end" | "paced" | "last",
        ) if (finding.cause, link.part) != (Cause::Bandwidth, "last") => {
            last_before(case, flow, at, index)
        }
        (Cause::PathRtt | Cause::TlsHandshake | Cause::Bandwidth, "request" | "client_hello") => {
            holds(seg.len > 0, "carries nothing")
        }
        (Cause::PathRtt | Cause::TlsHandshake | Cause::Bandwidth, "response" | "last") => Ok(()),
        (_, "request") => holds(seg.takes_space() || seg.has(TcpFlags::ACK), "carries nothing"),
        (Cause::ClientThink, "response") => Ok(()),
        (_, "response") => holds(seg.len > 0, "carries nothing"),
        (_, "last_data") => holds(seg.takes_space(), "carries nothing"),
        (_, "next" | "next_later" | "tail_probe" | "paced_next" | "late_answer") => {
            goes_on(case, flow, at, index)
        }
        (_, part) => Err(format!("is a `{part}`, of which this test knows nothing")),
    }
}

fn is_syn(seg: &Seg) -> bool {
    seg.has(TcpFlags::SYN) && !seg.has(TcpFlags::ACK)
}

fn is_syn_ack(seg: &Seg) -> bool {
    seg.has(TcpFlags::SYN | TcpFlags::ACK)
}

/// Right edge of the window that a segment offers.
fn edge(seg: &Seg) -> Option<i64> {
    Some(seg.ack? + seg.window?)
}

/// Returns whether segment `index` moves the right edge of its sender's window, or opens a closed
/// window.
fn opens(flow: &Flow, index: usize) -> bool {
    let seg = &flow.segs[index];
    let Some(now) = edge(seg) else { return seg.ack.is_some() };
    let before =
        flow.by(seg.from, index).filter(|it| !it.has(TcpFlags::RST)).filter_map(edge).max();
    before.is_none_or(|before| now > before)
}

/// "The ACK for it", "the ACK it waited for", "the ACK that frees space".
fn acknowledges(case: &Case<'_>, flow: &Flow, at: usize, index: usize) -> Answer {
    let seg = &flow.segs[index];
    let Some(ack) = seg.ack else { return Err("is no ACK".into()) };
    let bare = case.finding.evidence[at].part == "ack";
    holds(bare == (seg.len == 0), "carries data, or does not")?;
    let before = flow.acked(seg.from.peer(), index);
    let waited = case.links_before(at).find(|it| it.part != "duplicate_ack");
    let held = matches!(case.finding.cause, Cause::NagleDelayedAck | Cause::DelayedAck);
    if let Some(last) = waited.and_then(|it| flow.index(it.frame)).filter(|_| held) {
        let last = &flow.segs[last];
        holds(ack >= last.end(), "does not acknowledge what was sent before")?;
        let delta_ns = seg.time_ns.saturating_sub(last.time_ns);
        if let Some(delay_ns) = fact_ns(case.finding, "ack_delay_ns") {
            holds(delay_ns <= delta_ns, "was kept back for longer than it took")?;
        }
    }
    let selective = !seg.sack.is_empty();
    let news = ack > before || selective || held || opens(flow, index);
    holds(news, "acknowledges nothing new")
}

fn reports_hole(flow: &Flow, index: usize) -> Answer {
    let seg = &flow.segs[index];
    let repeated = flow.by(seg.from, index).any(|it| it.ack.is_some() && it.ack == seg.ack);
    holds(repeated || !seg.sack.is_empty(), "reports no hole")
}

/// Checks that the segment is sent again before it is acknowledged.
fn was_lost(case: &Case<'_>, flow: &Flow, at: usize, index: usize) -> Answer {
    let seg = &flow.segs[index];
    let again = flow.segs[index + 1..]
        .iter()
        .position(|it| it.from == seg.from && it.at < seg.end() && seg.at < it.end());
    let Some(again) = again.map(|offset| index + 1 + offset) else {
        return Err("is not sent again".into());
    };
    let acked = flow.acked(seg.from, again) >= seg.end();
    let repair = case.finding.evidence[at..].iter().find(|it| it.part == "retransmission");
    holds(repair.is_some() || case.finding.cause == Cause::MtuBlackHole, "has no repair")?;
    holds(!acked, "was acknowledged before it was sent again")
}

/// Bytes of it were seen before, or fill a hole, or a gap in its sender's count of packets, or what
/// duplicate ACKs asked for, shows that they were sent before.
fn sent_again(case: &Case<'_>, flow: &Flow, at: usize, index: usize) -> Answer {
    let seg = &flow.segs[index];
    let fills = seg.at < flow.sent(seg.from, index);
    let counted = flow.by(seg.from, index).next_back().is_some_and(|before| {
        let step = |it: &Seg| it.ip_id.filter(|&id| id != 0);
        let gap = step(seg).zip(step(before)).map(|(now, then)| now.wrapping_sub(then));
        gap.is_some_and(|gap| (2..0x8000).contains(&gap))
    });
    holds(flow.repeats(index) || fills || counted, "nothing shows that it was sent before")?;
    if case.finding.cause == Cause::MtuBlackHole {
        let behind = &flow.segs[index + 1..];
        let again = behind
            .iter()
            .position(|it| it.from == seg.from && it.at < seg.end() && seg.at < it.end());
        let acked = behind
            .iter()
            .position(|it| it.from != seg.from && it.ack.is_some_and(|ack| ack >= seg.end()));
        let vanished = acked.is_none_or(|acked| again.is_some_and(|again| again < acked));
        return holds(vanished, "does not vanish");
    }
    let _ = at;
    Ok(())
}

/// Checks that the silent sender sent no data between the named segment and the data that ends the
/// silence.
fn last_before(case: &Case<'_>, flow: &Flow, at: usize, index: usize) -> Answer {
    let seg = &flow.segs[index];
    let evidence = &case.finding.evidence;
    let mut later = evidence[at + 1..].iter().filter(|it| !MARKS.contains(&it.part));
    let Some(end) = later.next().and_then(|it| flow.index(it.frame)) else { return Ok(()) };
    let next = &flow.segs[end];
    let between = &flow.segs[index + 1..end.max(index + 1)];
    let probe = |it: &&Seg| {
        case.finding.cause == Cause::ZeroWindow
            && (it.len <= 1 || it.at < flow.sent(it.from, index))
    };
    // New data: repetitions of a timer end no silence of the application.
    let new = |it: &&Seg| it.end() > flow.sent(it.from, index + 1);
    let mut spoke = between.iter().filter(|it| it.len > 0 && !probe(it) && new(it));
    let silent = if next.from == seg.from {
        !spoke.any(|it| it.from == seg.from)
    } else {
        !spoke.any(|it| it.from == next.from)
    };
    holds(silent, "is not the last before the silence")?;
    let mss = flow.mss(seg.from);
    let part = evidence[at].part;
    if case.finding.cause == Cause::NagleDelayedAck {
        match part {
            "flight_end" | "said_before" => holds(seg.len < mss, "is not small")?,
            "flight_rest" => {
                let mut before = flow.by(seg.from, index).rev().take(64);
                holds(before.any(|it| it.len > 0 && it.len < mss), "no small one came before it")?;
            }
            _ => {}
        }
        holds(next.at == seg.end(), "is not what the next one continues")?;
    }
    if case.finding.cause == Cause::ReceiveWindow && flow.scales_known && part == "flight_end" {
        let heard = flow.heard(seg.time_ns, case.leg_ns(flow, seg.from)).min(index + 1);
        let edge = flow.by(seg.from.peer(), heard).filter_map(edge).max();
        let full = edge.is_none_or(|edge| edge - seg.end() < next.len.min(mss));
        holds(full, "leaves the window room")?;
    }
    Ok(())
}

/// The sender goes on with new data; "at once" is within the path's time of the ACK.
fn goes_on(case: &Case<'_>, flow: &Flow, at: usize, index: usize) -> Answer {
    let seg = &flow.segs[index];
    holds(seg.takes_space(), "carries nothing")?;
    let part = case.finding.evidence[at].part;
    let words = case.caption(at);
    if !words.contains("at once") {
        return Ok(());
    }
    let mut acks = case.links_before(at).filter(|it| ["ack", "ack_with_data"].contains(&it.part));
    let ack = acks.next().and_then(|it| flow.index(it.frame));
    let Some(ack) = ack else { return Err(format!("`{part}` follows at once, and after what?")) };
    let after_ns = seg.time_ns.saturating_sub(flow.segs[ack].time_ns);
    let leg_ns = case.leg_ns(flow, seg.from);
    let silence_ns = case.silence_ns();
    let most_ns = leg_ns + leg_ns / 4 + HOST_NS.min(500_000 + silence_ns / 16);
    let what = format!("follows after {after_ns} ns, of which the way is {leg_ns}");
    holds(after_ns <= most_ns, &what)
}

/// Checks link `at` of a chain of DNS messages and returns what is untrue in it.
pub fn datagram(case: &Case<'_>, seen: &Datagram, at: usize) -> Answer {
    let finding = case.finding;
    let evidence = &finding.evidence;
    let link = &evidence[at];
    let before = |parts: &[&str]| {
        let mut links = evidence[..at].iter().rev().filter(|it| parts.contains(&it.part));
        links.next().and_then(|it| case.wire.datagrams.get(&it.frame))
    };
    let questions = ["query", "asked", "again", "next", "hit", "other", "forwarded"];
    if questions.contains(&link.part) {
        holds(!seen.is_answer, "is no query")?;
    }
    let first = before(&["query", "asked"]);
    match link.part {
        "query" => match finding.cause {
            Cause::DnsTimeout | Cause::ReverseDnsTimeout | Cause::ConntrackRace => {
                let unheard = case.wire.answer(seen).is_none();
                holds(unheard || finding.cause == Cause::ConntrackRace, "was answered")
            }
            _ => Ok(()),
        },
        "asked" | "hit" | "forwarded" | "other" => Ok(()),
        "again" => {
            let same = first.is_some_and(|it| it.question == seen.question);
            holds(same, "asks something else")
        }
        "next" => {
            let elsewhere = first.is_some_and(|it| it.destination != seen.destination);
            let same = first.is_some_and(|it| it.question == seen.question);
            holds(elsewhere && same, "is not the same question to another server")
        }
        "answer" | "nxdomain" | "forwarded_answer" => {
            let asked = before(&questions);
            let of = asked.is_some_and(|it| it.id == seen.id && it.source == seen.destination);
            let known = evidence.iter().filter_map(|it| case.wire.datagrams.get(&it.frame));
            let any = known.filter(|it| !it.is_answer).any(|it| it.id == seen.id);
            holds(seen.is_answer && (of || any), "is not the answer to it")?;
            match (finding.cause, link.part) {
                (_, "nxdomain") => holds(seen.rcode == 3, "does not deny the name"),
                (Cause::DnsFailure, "answer") if before(&["again", "next", "other"]).is_none() => {
                    holds(seen.rcode != 0, "is no failure")
                }
                _ => Ok(()),
            }
        }
        part => Err(format!("is a `{part}`, of which this test knows nothing")),
    }
}
