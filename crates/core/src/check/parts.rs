//! Checks the words of each evidence frame.

use super::flow::{Flow, Seg};
use super::message::Message;
use super::{Answer, Case, Doubt, holds, undecided};
use crate::model::{Cause, Fact};
use crate::wire::dns_message::rcode;
use crate::wire::{Side, TcpFlags};

/// "At once" is within the way from the capture to the sender and back, and what a busy host takes, ns.
const HOST_NS: u64 = 3_000_000;

/// Parts that say something of the silence, and neither begin nor end it.
const MARKS: [&str; 8] = [
    "ack",
    "ack_with_data",
    "duplicate_ack",
    "zero_window",
    "narrow_window",
    "probe",
    "icmp",
    "window_update",
];

/// Bytes of a WINDOW_UPDATE frame (RFC 9113 §6.9).
const WINDOW_UPDATE_BYTES: i64 = 13;

/// Checks link `at` of the evidence, which is segment `index` of the connection.
pub(super) type Checker = fn(&Case<'_>, usize, usize) -> Answer;

/// Checks link `at` of the evidence, which is a DNS message.
pub(super) type LookupChecker = fn(&Case<'_>, &Message, usize) -> Answer;

/// Returns the checker of an evidence frame with this `part` in a finding of `cause`.
pub(super) fn of(cause: Cause, part: &str) -> Option<Checker> {
    use Cause as C;
    Some(match (cause, part) {
        (_, "syn" | "first_syn") => |case, _, index| holds(is_syn(case.seg(index)?), "is no SYN"),
        (_, "syn_again" | "syn_last") => |case, _, index| {
            let again = is_syn(case.seg(index)?) && case.flow.repeats(index);
            holds(again, "is no SYN that was sent before")
        },
        (C::SynRetransmit | C::NoAnswer, "went_on") => {
            |case, _, index| holds(is_syn(case.seg(index)?), "is no SYN")
        }
        (C::SynFlood, "victim") => |case, _, index| holds(is_syn(case.seg(index)?), "is no SYN"),
        (_, "syn_ack") | (C::Refused, "accepted") => {
            |case, _, index| holds(is_syn_ack(case.seg(index)?), "is no SYN-ACK")
        }
        (_, "syn_ack_again") => |case, _, index| {
            let seg = case.seg(index)?;
            let before = case.flow.by(seg.from, index).any(is_syn_ack);
            holds(is_syn_ack(seg) && before, "is no SYN-ACK that was sent before")
        },
        (_, "opened") => |case, _, index| {
            let seg = case.seg(index)?;
            let is_bare = seg.len == 0 && seg.has(TcpFlags::ACK) && !seg.has(TcpFlags::SYN);
            let is_first = case.flow.by(seg.from, index).all(|it| it.len == 0);
            holds(is_bare && is_first, "is not the ACK that ends the handshake")
        },
        (_, "fin") => |case, _, index| holds(case.seg(index)?.has(TcpFlags::FIN), "is no FIN"),
        (_, "reset" | "gave_up") => {
            |case, _, index| holds(case.seg(index)?.has(TcpFlags::RST), "is no RST")
        }
        (C::SynRetransmit | C::AcceptQueueOverflow | C::PathRtt | C::NoAnswer, "ack") => {
            |case, _, index| {
                let seg = case.seg(index)?;
                let mut answers = case.flow.by(seg.from.peer(), index);
                let covers = answers.any(|it| is_syn_ack(it) && seg.ack >= Some(it.end()));
                let is_bare = !seg.has(TcpFlags::SYN);
                holds(covers && is_bare, "does not acknowledge a SYN-ACK")
            }
        }
        (C::ZeroWindow, "ack") => {
            |case, _, index| holds(opens(&case.flow, index), "does not open the window")
        }
        (C::ReceiveWindow, "ack") => {
            |case, _, index| holds(opens(&case.flow, index), "does not move the window's edge")
        }
        (_, "ack" | "ack_with_data" | "probe_ack" | "dsack" | "last_ack" | "loaded" | "base")
            if (cause, part) != (C::Reset, "last_ack")
                && (cause, part) != (C::RetransmissionTimeout, "last_ack") =>
        {
            acknowledges
        }
        (_, "last_ack") => |case, _, index| holds(case.seg(index)?.ack.is_some(), "is no ACK"),
        (C::Http2FlowControl, "window_update") => |case, _, index| {
            let seg = case.seg(index)?;
            let from_receiver =
                case.link(&["released"]).is_none_or(|(_, data)| data.from != seg.from);
            holds(from_receiver && seg.len >= WINDOW_UPDATE_BYTES, "cannot carry a grant")
        },
        (C::Http2FlowControl, "released") => goes_on,
        (_, "duplicate_ack") => |case, _, index| reports_hole(&case.flow, index),
        (_, "zero_window") => |case, _, index| {
            let seg = case.seg(index)?;
            let is_zero = seg.window.is_none_or(|window| window == 0);
            holds(seg.has(TcpFlags::ACK) && is_zero, "leaves a window")
        },
        (_, "narrow_window") => |case, _, index| {
            let seg = case.seg(index)?;
            let least = case.flow.mss(seg.from.peer()).max(2);
            let small = seg.window.is_none_or(|window| window < least);
            holds(seg.has(TcpFlags::ACK) && small, "does not close the window")
        },
        (_, "probe") => |case, _, index| {
            let seg = case.seg(index)?;
            let edge = case.flow.edge(seg.from.peer(), index);
            let beyond = edge.is_none_or(|edge| seg.end() >= edge);
            let below = seg.at < case.flow.sent(seg.from, index);
            holds(beyond || below, "lies within the window")
        },
        (_, "lost" | "data") => was_lost,
        (_, "retransmission") => sent_again,
        (C::MtuBlackHole, "smaller") => |case, _, index| {
            // The original may have been lost before the capture.
            let seg = case.seg(index)?;
            let most = case.flow.by(seg.from, case.flow.segs.len()).map(|it| it.len).max();
            let most = most.unwrap_or(0);
            let said = case.fact_number("lost_bytes").unwrap_or(most);
            holds(seg.len < said.max(most), "is not smaller")
        },
        (C::MtuBlackHole, "passed") => |case, _, index| {
            let seg = case.seg(index)?;
            let acked = case.flow.acked(seg.from, case.flow.segs.len());
            holds(seg.end() <= acked, "was not acknowledged")
        },
        (_, "original") => {
            |case, _, index| holds(is_repeated(&case.flow, index)?.is_some(), "is not sent again")
        }
        (C::Reordering, "early") => |case, _, index| {
            let seg = case.seg(index)?;
            match case.link(&["late"]) {
                Some((at, late)) => {
                    let overtakes = index < at && late.end() <= seg.at && late.from == seg.from;
                    holds(overtakes, "did not overtake the late one")
                }
                None => undecided("it overtook behind the capture"),
            }
        },
        (C::Http100Continue, "late" | "continue") => {
            |case, _, index| holds(case.seg(index)?.from == Side::Server, "is not the server's")
        }
        (_, "late") => |case, _, index| {
            let seg = case.seg(index)?;
            let overtook = case.flow.by(seg.from, index).any(|it| it.at >= seg.end());
            let once = !case.flow.repeats(index);
            holds(overtook && once, "was not overtaken, or had been sent before")
        },
        (_, "last_seen") => |case, _, index| {
            holds(index + 1 == case.flow.segs.len(), "is not the last that was captured")
        },
        (_, "left") => |case, _, index| {
            let seg = case.seg(index)?;
            holds(ends(seg) || seg.len > 0, "neither closes nor carries data")
        },
        (_, "end") => |case, _, index| holds(ends(case.seg(index)?), "does not end the connection"),
        (_, "flight_end" | "pause")
            if cause.is_of_server_time() || matches!(cause, C::ClientThink | C::TlsHandshake) =>
        {
            is_of_the_talk
        }
        // A watch may move a server's time to the queue of its interface.
        (C::Bufferbloat, "pause") => is_of_the_talk,
        (C::Bandwidth, "last") => |case, _, index| {
            let seg = case.seg(index)?;
            holds(seg.takes_space() || ends(seg), "carries nothing, and ends nothing")?;
            // The peer's next message begins another transfer.
            let behind = case.flow.segs.get(index + 1..).unwrap_or_default();
            let mut message = behind.iter().take_while(|it| it.from == seg.from || it.len == 0);
            let more = message.any(|it| it.from == seg.from && it.at >= seg.end() && it.len > 0);
            holds(!more, "more data follows")
        },
        (C::Bandwidth, "first") => carries,
        (
            _,
            "flight_end" | "said_before" | "flight_rest" | "full_flight_end" | "paced" | "last",
        ) => last_before,
        (_, "request") if !matches!(cause, C::PathRtt | C::Bandwidth) => |case, _, index| {
            let seg = case.seg(index)?;
            let asks = seg.takes_space() || seg.has(TcpFlags::ACK);
            holds(seg.from == Side::Client && asks, "is not the client's, or carries nothing")
        },
        (_, "response") if cause.is_of_server_time() => |case, at, index| {
            holds(case.seg(index)?.from == Side::Server, "is not the server's")?;
            carries(case, at, index)
        },
        (C::PathRtt | C::Bandwidth | C::ClientThink | C::ErrorResponses, "response") => {
            |case, _, index| {
                let seg = case.seg(index)?;
                // The end of a response that only its FIN shows carries no data.
                holds(seg.takes_space() || seg.ack.is_some(), "carries nothing")
            }
        }
        (C::ErrorResponses, "alert") => |case, at, index| {
            let sender = Fact::Text(case.seg(index)?.from.name().into());
            holds(case.fact("refuser") == Some(&sender), "the other side sent it")?;
            carries(case, at, index)
        },
        (
            _,
            "request" | "response" | "client_hello" | "server_hello" | "finished" | "handshake_end"
            | "handshake_last",
        ) => carries,
        (_, "last_data" | "last_response") => {
            |case, _, index| holds(case.seg(index)?.takes_space(), "carries nothing")
        }
        (_, "next" | "next_later" | "tail_probe" | "paced_next" | "late_answer") => goes_on,
        (_, "loss") => |case, _, index| {
            let repaired = is_repeated(&case.flow, index)?.is_some();
            holds(repaired || case.flow.repeats(index), "was neither repeated nor a repetition")
        },
        (_, "again" | "other" | "icmp") => |_, _, _| undecided("a message of another kind"),
        (C::ConntrackFull | C::ConntrackRace | C::PortExhaustion, _) => {
            |_, _, _| undecided("the state of the system shows it")
        }
        (_, "connect" | "after" | "continuations") => {
            |_, _, _| undecided("a packet of another connection")
        }
        // Sentences beside the frames.
        (_, "far_sender" | "ahead") => |_, _, _| Ok(()),
        _ => return None,
    })
}

/// The segment carries data.
fn carries(case: &Case<'_>, _: usize, index: usize) -> Answer {
    holds(case.seg(index)?.len > 0, "carries nothing")
}

fn ends(seg: &Seg) -> bool {
    seg.has(TcpFlags::FIN) || seg.has(TcpFlags::RST)
}

/// Returns the place of the first later segment with bytes of segment `index`.
fn is_repeated(flow: &Flow, index: usize) -> Result<Option<usize>, Doubt> {
    let Some(seg) = flow.segs.get(index) else { return undecided("the packet is not captured") };
    let behind = flow.segs.iter().enumerate().skip(index + 1);
    let mut again =
        behind.filter(|(_, it)| it.from == seg.from && it.at < seg.end() && seg.at < it.end());
    Ok(again.next().map(|(at, _)| at))
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
    let Some(seg) = flow.segs.get(index) else { return false };
    let Some(now) = edge(seg) else { return seg.ack.is_some() };
    flow.edge(seg.from, index).is_none_or(|before| now > before)
}

/// "The ACK for it", "the ACK it waited for", "the ACK that frees space".
fn acknowledges(case: &Case<'_>, at: usize, index: usize) -> Answer {
    let (flow, seg) = (&case.flow, case.seg(index)?);
    let Some(ack) = seg.ack else { return Err(Doubt::False("is no ACK".into())) };
    let part = case.finding.evidence.get(at).map_or("", |it| it.part);
    match part {
        "ack" => holds(seg.len == 0, "carries data")?,
        "ack_with_data" => holds(seg.len > 0, "carries no data")?,
        "dsack" => return holds(!seg.sack.is_empty(), "carries no SACK block"),
        "probe_ack" => return Ok(()),
        _ => {}
    }
    let before = flow.acked(seg.from.peer(), index);
    let waited = case.links_before(at).find(|it| it.part != "duplicate_ack");
    let held = case.finding.cause.waits_for_ack();
    let waited = waited.and_then(|it| flow.index(it.frame)).filter(|_| held);
    if let Some(last) = waited.and_then(|at| flow.segs.get(at)) {
        holds(ack >= last.end(), "does not acknowledge what was sent before")?;
        let after_ns = seg.time_ns.saturating_sub(last.time_ns);
        if let Some(delay_ns) = case.fact_ns("ack_delay_ns") {
            holds(delay_ns <= after_ns, "was kept back for longer than it took")?;
        }
    }
    let selective = !seg.sack.is_empty();
    let news = ack > before || selective || held || opens(flow, index);
    holds(news, "acknowledges nothing new")
}

fn reports_hole(flow: &Flow, index: usize) -> Answer {
    let Some(seg) = flow.segs.get(index) else { return undecided("the packet is not captured") };
    let repeated = flow.by(seg.from, index).any(|it| it.ack.is_some() && it.ack == seg.ack);
    holds(repeated || !seg.sack.is_empty(), "reports no hole")
}

/// The segment is sent again before it is acknowledged.
fn was_lost(case: &Case<'_>, at: usize, index: usize) -> Answer {
    let (flow, seg) = (&case.flow, case.seg(index)?);
    let Some(again) = is_repeated(flow, index)? else {
        let part = case.finding.evidence.get(at).map_or("", |it| it.part);
        let unheard = part == "data" && flow.acked(seg.from, flow.segs.len()) < seg.end();
        return holds(unheard, "is not sent again");
    };
    let acked = flow.acked(seg.from, again) >= seg.end();
    let mut later = case.finding.evidence.iter().skip(at);
    let repair = later.any(|it| it.part == "retransmission");
    let needs_none = matches!(case.finding.cause, Cause::MtuBlackHole | Cause::AcceptQueueOverflow);
    holds(repair || needs_none, "has no repair")?;
    holds(!acked, "was acknowledged before it was sent again")
}

/// Bytes of it were seen before, or fill a hole, or a gap in its sender's count of packets, or what
/// duplicate ACKs asked for, shows that they were sent before.
fn sent_again(case: &Case<'_>, _: usize, index: usize) -> Answer {
    let (flow, seg) = (&case.flow, case.seg(index)?);
    let fills = seg.at < flow.sent(seg.from, index);
    let counted = flow.by(seg.from, index).next_back().is_some_and(|before| {
        let count = |it: &Seg| it.ip_id.filter(|&id| id != 0);
        let gap = count(seg).zip(count(before)).map(|(now, then)| now.wrapping_sub(then));
        gap.is_some_and(|gap| (2..0x8000).contains(&gap))
    });
    holds(flow.repeats(index) || fills || counted, "nothing shows that it was sent before")?;
    if case.finding.cause == Cause::MtuBlackHole {
        let again = is_repeated(flow, index)?;
        let mut behind = flow.segs.iter().enumerate().skip(index + 1);
        let acked = behind.find(|(_, it)| it.from != seg.from && it.ack >= Some(seg.end()));
        let vanished = acked.is_none_or(|(acked, _)| again.is_some_and(|again| again < acked));
        return holds(vanished, "does not vanish");
    }
    Ok(())
}

/// The segment carries data or a signal, or acknowledges.
fn is_of_the_talk(case: &Case<'_>, _: usize, index: usize) -> Answer {
    let seg = case.seg(index)?;
    holds(seg.takes_space() || seg.ack.is_some(), "neither carries nor acknowledges")
}

/// The silent sender sent no data between the named segment and the data that ends the silence.
fn last_before(case: &Case<'_>, at: usize, index: usize) -> Answer {
    let (flow, seg) = (&case.flow, case.seg(index)?);
    let evidence = &case.finding.evidence;
    let mut later = evidence.iter().skip(at + 1).filter(|it| !MARKS.contains(&it.part));
    let Some(end) = later.next().and_then(|it| flow.index(it.frame)) else { return Ok(()) };
    let next = case.seg(end)?;
    let between = flow.segs.get(index + 1..end.max(index + 1)).unwrap_or_default();
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
    let part = evidence.get(at).map_or("", |it| it.part);
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
        let heard = flow.heard(seg.time_ns, case.leg_ns(seg.from)).min(index + 1);
        let edge = flow.edge(seg.from.peer(), heard);
        let full = edge.is_none_or(|edge| edge - seg.end() < next.len.min(mss));
        holds(full, "leaves the window room")?;
    }
    Ok(())
}

/// The sender goes on with new data; "at once" is within the path's time of the ACK.
fn goes_on(case: &Case<'_>, at: usize, index: usize) -> Answer {
    let seg = case.seg(index)?;
    holds(seg.takes_space(), "carries nothing")?;
    if !case.caption(at).contains("at once") {
        return Ok(());
    }
    let mut acks = case.links_before(at).filter(|it| ["ack", "ack_with_data"].contains(&it.part));
    let ack = acks.next().and_then(|it| case.flow.index(it.frame));
    let Some(ack) = ack else {
        return Err(Doubt::False("follows at once, and no ACK is named".into()));
    };
    let after_ns = seg.time_ns.saturating_sub(case.seg(ack)?.time_ns);
    let leg_ns = case.leg_ns(seg.from);
    let most_ns = leg_ns + leg_ns / 4 + HOST_NS.min(500_000 + case.silence_ns() / 16);
    let what = format!("follows after {after_ns} ns, of which the way is {leg_ns}");
    holds(after_ns <= most_ns, what)
}

/// Parts of a look-up that are queries.
const QUERIES: [&str; 7] = ["query", "asked", "again", "next", "hit", "other", "forwarded"];

/// Returns the checker of a DNS message with this `part`.
pub(super) fn of_lookup(part: &str) -> Option<LookupChecker> {
    Some(match part {
        "query" | "lost" => |case, seen, _| {
            holds(!seen.is_answer, "is no query")?;
            let unheard =
                matches!(case.finding.cause, Cause::DnsTimeout | Cause::ReverseDnsTimeout);
            holds(!unheard || case.packets.answer(seen).is_none(), "was answered")
        },
        "asked" | "hit" | "forwarded" | "other" => {
            |_, seen, _| holds(!seen.is_answer, "is no query")
        }
        "again" => |case, seen, at| {
            holds(!seen.is_answer, "is no query")?;
            let first = before(case, at, &["query", "asked"]);
            let same = first.is_some_and(|it| it.question == seen.question);
            holds(same, "asks something else")
        },
        "next" => |case, seen, at| {
            holds(!seen.is_answer, "is no query")?;
            let first = before(case, at, &["query", "asked"]);
            let elsewhere = first.is_some_and(|it| it.destination != seen.destination);
            let same = first.is_some_and(|it| it.question == seen.question);
            holds(elsewhere && same, "is not the same question to another server")
        },
        "answer" | "nxdomain" | "forwarded_answer" | "resolved" => answer,
        "fragment" | "beginning" | "icmp" | "after" | "connect" => {
            |_, _, _| undecided("a packet of another kind")
        }
        // Sentences beside the frames.
        "far_sender" | "ahead" => |_, _, _| Ok(()),
        _ => return None,
    })
}

/// Returns the last message before link `at` with one of `parts`.
fn before<'a>(case: &'a Case<'_>, at: usize, parts: &[&str]) -> Option<&'a Message> {
    let mut links = case.links_before(at).filter(|it| parts.contains(&it.part));
    links.next().and_then(|it| case.packets.datagram(it.frame))
}

fn answer(case: &Case<'_>, seen: &Message, at: usize) -> Answer {
    let asked = before(case, at, &QUERIES);
    let of = asked.is_some_and(|it| it.id == seen.id && it.source == seen.destination);
    let named = case.finding.evidence.iter().filter_map(|it| case.packets.datagram(it.frame));
    let any = named.filter(|it| !it.is_answer).any(|it| it.id == seen.id);
    holds(seen.is_answer && (of || any), "is not the answer to it")?;
    let part = case.finding.evidence.get(at).map_or("", |it| it.part);
    match (case.finding.cause, part) {
        (_, "nxdomain") => holds(seen.rcode == rcode::NXDOMAIN, "does not deny the name"),
        (_, "resolved") => holds(matches!(seen.rcode, 0 | rcode::NXDOMAIN), "is a failure"),
        (Cause::DnsFailure, "answer")
            if before(case, at, &["again", "next", "other"]).is_none() =>
        {
            holds(seen.rcode != 0, "is no failure")
        }
        _ => Ok(()),
    }
}
