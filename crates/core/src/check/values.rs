//! Checks the values that the sentences of a finding quote.

use super::attempts;
use super::flow::{Flow, Seg};
use super::message::Message;
use super::quoted::{COMPUTED, COUNTS, DURATIONS, ESTIMATES, LATENCIES, OF_STATE, SYNS, WORDS};
use super::{Answer, Case, Doubt, holds, undecided};
use crate::model::{Cause, Fact};
use crate::wire::{Side, TcpFlags};

/// Checks one value.
pub(super) type Checker = fn(&Case<'_>, &str, &Fact) -> Answer;

/// Two times of one moment, read from different frames, differ by less than this, ns.
const ALIKE_NS: u64 = 1_000_000;

/// Measurements of one quantity differ by less than this part.
const ALIKE_PART: i64 = 7;

/// Least time within which a segment is taken as the effect of an ACK, ns.
const REACTION_NS: u64 = 500_000;

/// Returns the checker of the fact `name` in sentences of `cause`.
pub(super) fn of(cause: Cause, name: &str) -> Option<Checker> {
    use Cause as C;
    Some(match (cause, name) {
        (_, "held_bytes") => held,
        (C::NagleDelayedAck, "chance_one_in") => by_chance,
        (C::NagleDelayedAck | C::DelayedAck, "flight_bytes") | (C::DelayedAck, "whole_bytes") => {
            flight
        }
        (C::NagleDelayedAck, "small_bytes") => small_before,
        (C::RetransmissionTimeout, "rto_ns") => |case, _, fact| {
            let links = case.link(&["lost", "flight_end"]).zip(case.link(&["retransmission"]));
            between(fact, links)
        },
        (C::SynRetransmit | C::AcceptQueueOverflow, "rto_ns") => {
            |case, _, fact| between(fact, case.link(&["syn"]).zip(case.link(&["syn_again"])))
        }
        (C::SynRetransmit | C::AcceptQueueOverflow, "answer_late_ns") => attempts::late_answer,
        (C::Refused, "rtt_ns") => {
            |case, _, fact| between(fact, case.link(&["syn"]).zip(case.link(&["reset"])))
        }
        (C::DnsTimeout | C::ReverseDnsTimeout, "timeout_ns") => waited,
        (C::DnsTimeout | C::ReverseDnsTimeout, "silent") => unanswered,
        (C::NoAnswer, "quiet_ns") => {
            |case, _, fact| between(fact, case.link(&["last_data"]).zip(case.link(&["gave_up"])))
        }
        (C::ErrorResponses, "failed_upstream") => attempts::tried,
        (C::NoAnswer, "at_once") => attempts::accepted,
        (C::NoAnswer, "open_ns") => {
            |case, _, fact| between(fact, case.link(&["ack"]).zip(case.link(&["fin", "reset"])))
        }
        (C::Reset, "unread_bytes") => unread,
        (C::IdleReset, "server_timeout_ns") => idle_until_fin,
        (_, "rst_ttl") => |case, _, fact| match case.link(&["reset"]) {
            Some((_, reset)) => is_number(fact, reset.ttl.into()),
            None => undecided("no RST is named"),
        },
        (_, "ttl") => |case, _, fact| match case.link(&["reset"]) {
            Some((_, reset)) => {
                let mut others = case.flow.by(reset.from, case.flow.segs.len());
                let seen = others.any(|it| !it.has(TcpFlags::RST) && is(fact, it.ttl.into()));
                match seen {
                    true => Ok(()),
                    false => undecided("packets of other connections show it"),
                }
            }
            None => undecided("no RST is named"),
        },
        (C::SpuriousRetransmission, "count") => {
            |case, name, fact| within(fact, repeats(case)?, name, "repetitions")
        }
        (C::RetransmissionTimeout | C::FastRecovery, "count") => repaired,
        (C::RetransmissionTimeout, "tail") => {
            |case, name, fact| within(fact, case.fact_number("count").unwrap_or(0), name, "count")
        }
        (C::SynRetransmit, "unanswered") => |case, name, fact| {
            let most = case.fact_number("count").unwrap_or(0);
            within(fact, most, name, "attempts")
        },
        (C::SynRetransmit, "all_silent" | "silent_syns" | "unreached") => attempts::unanswered,
        (C::SynRetransmit, "announced") => |case, _, fact| {
            let server = case.finding.evidence_flow.map(|(_, server)| server.ip().to_string());
            let is_target = matches!(fact, Fact::Text(text) if Some(text) == server.as_ref());
            let is_other = server != Some(case.finding.culprit.endpoint.ip().to_string());
            holds(is_target && is_other, format!("the attempts are to {server:?}"))
        },
        (C::SynRetransmit, "spared") => |case, _, fact| {
            let Some([_, answered]) = syns(case, "") else {
                return undecided("too many SYNs to keep");
            };
            let stated = number(fact).unwrap_or(0);
            holds(stated <= answered, format!("{answered} SYNs were answered"))
        },
        (C::SynRetransmit, name) if SYNS.contains(&name) => |case, name, fact| {
            let Some([unanswered, _]) = syns(case, name) else {
                return undecided("too many SYNs to keep");
            };
            let stated = number(fact).unwrap_or(0);
            holds(stated <= unanswered, format!("{unanswered} such SYNs have no answer"))
        },
        (C::PathRtt, "round_trips" | "least_trips") => trips,
        (C::ClientThink, "longest_ns") => |case, _, fact| {
            let (most_ns, lost_ns) = (number(fact).unwrap_or(0), as_number(case.finding.lost_ns));
            holds(most_ns <= lost_ns, format!("all pauses take {lost_ns} ns"))
        },
        (_, "p50_ns") => median,
        (_, "cases") => |case, name, fact| {
            let most = case.fact_number("of_cases").unwrap_or(i64::MAX);
            within(fact, most, name, "of_cases")
        },
        (_, "share" | "loss_share" | "share_of_requests") => |_, name, fact| match fact {
            Fact::Share(share) => holds((0.0..=1.0).contains(share), format!("{name}={share}")),
            _ => holds(false, format!("{name} is no share")),
        },
        (_, "rcode" | "silent_type") => |_, name, fact| match fact {
            // A type or a code without a name of its own says nothing to a reader.
            Fact::Text(text) => holds(!text.is_empty(), format!("{name} is empty")),
            _ => holds(false, format!("{name} is no word")),
        },
        (_, "time_connect" | "time_appconnect") => |_, _, _| Ok(()),
        _ if DURATIONS.contains(&name) => duration,
        _ if LATENCIES.contains(&name) => latency,
        _ if COMPUTED.contains(&name) => |_, name, fact| match fact {
            Fact::Ns(_) => Ok(()),
            _ => holds(false, format!("{name} is no duration")),
        },
        _ if OF_STATE.contains(&name) => |_, _, _| undecided("the state of the system shows it"),
        _ if COUNTS.contains(&name) => |case, name, fact| {
            let packets = case.packets.sums.segments + case.packets.sums.messages;
            within(fact, i64::try_from(packets).unwrap_or(i64::MAX), name, "packets")
        },
        _ if ESTIMATES.contains(&name) => |_, name, fact| match fact {
            Fact::Bytes(0) | Fact::BitsPerSecond(0) => holds(false, format!("{name} is 0")),
            _ => Ok(()),
        },
        _ if WORDS.contains(&name) => |_, name, fact| match fact {
            Fact::Text(text) => holds(!text.is_empty(), format!("{name} is empty")),
            _ => Ok(()),
        },
        // Known of every finding.
        (_, "culprit" | "exchanges" | "of_exchanges" | "connections" | "lost_ns") => {
            |_, _, _| Ok(())
        }
        _ => return None,
    })
}

fn number(fact: &Fact) -> Option<i64> {
    match fact {
        Fact::Count(number) | Fact::Bytes(number) | Fact::Ns(number) => {
            Some(i64::try_from(*number).unwrap_or(i64::MAX))
        }
        _ => None,
    }
}

fn is(fact: &Fact, seen: i64) -> bool {
    number(fact) == Some(seen)
}

fn is_number(fact: &Fact, seen: i64) -> Answer {
    holds(is(fact, seen), format!("it is {seen}"))
}

fn as_number(ns: u64) -> i64 {
    i64::try_from(ns).unwrap_or(i64::MAX)
}

/// The round trips, as many as the sentence says, take the cost; or not more, if it says that there
/// are at least as many.
fn trips(case: &Case<'_>, name: &str, fact: &Fact) -> Answer {
    let Some(each_ns) = case.fact_ns("trip_mean_ns").or(case.fact_ns("rtt_ns")) else {
        return undecided("the time of a round trip is not stated");
    };
    let (count, cost_ns) = (number(fact).unwrap_or(0), as_number(case.finding.lost_ns));
    let sum_ns = count.saturating_mul(as_number(each_ns));
    let what = format!("{count} times {each_ns} ns is {sum_ns} ns, and the cost {cost_ns}");
    let least_ns = if name == "least_trips" { 0 } else { cost_ns - cost_ns / ALIKE_PART };
    holds((least_ns..=cost_ns + cost_ns / ALIKE_PART + 1).contains(&sum_ns), what)
}

/// Half of the values reach the median, so that their sum is at least that. What the sentence counts
/// has the median: handshakes, the times that it states, or else the exchanges with the cause.
fn median(case: &Case<'_>, _: &str, fact: &Fact) -> Answer {
    let counted = match case.finding.cause {
        Cause::TlsHandshake => case.fact_number("handshakes"),
        cause if cause.is_of_server_time() => case.fact_number("cases"),
        _ => case.fact_number("count"),
    };
    let (count, median_ns) = (counted.unwrap_or(0), number(fact).unwrap_or(0));
    let (half_ns, cost_ns) = (count / 2 * median_ns, as_number(case.finding.lost_ns));
    let what = format!("half of {count} times {median_ns} ns is {half_ns}, and the cost {cost_ns}");
    // A median is known to a bucket of its histogram.
    holds(half_ns - half_ns / 32 <= cost_ns, what)?;
    latency(case, "p50_ns", fact)
}

/// The number is at least 1, or unset, and at most `most`.
fn within(fact: &Fact, most: i64, name: &str, of: &str) -> Answer {
    let Some(number) = number(fact) else { return Ok(()) };
    holds(number <= most, format!("{name}={number}, of {most} {of}"))
}

/// Each wait for lost data ends with a segment that repeats bytes or fills a hole. A segment that was
/// lost before the capture leaves no hole if nothing was sent behind it.
fn repaired(case: &Case<'_>, name: &str, fact: &Fact) -> Answer {
    let (Some(stated), seen) = (number(fact), repeats(case)?) else { return Ok(()) };
    let behind =
        ["between the capture and the receiver", "in the receiving host, behind the capture"];
    let is_behind =
        matches!(case.fact("place"), Some(Fact::Text(place)) if behind.contains(&place.as_str()));
    let is_unseen = !is_behind || case.fact("unheard_bytes").is_some();
    // The last wait may end with the connection.
    match stated <= seen + i64::from(case.flow.is_left_unacknowledged()) {
        false if is_unseen => undecided("segments were lost before the capture"),
        false if ["caller", "filtered"].iter().any(|it| case.fact(it).is_some()) => {
            undecided("losses on other ways count as well")
        }
        holding => holds(holding, format!("{name}={stated}, of {seen} repetitions")),
    }
}

/// Returns the number of SYNs with a property to the server of the evidence: those without an answer,
/// and those with one.
fn syns(case: &Case<'_>, name: &str) -> Option<[i64; 2]> {
    let (_, server) = case.finding.evidence_flow?;
    let count = case.packets.syns.count(server, name)?;
    Some(count.map(|it| i64::try_from(it).unwrap_or(i64::MAX)))
}

/// A named frame: its place in the connection, and its segment.
type Link<'a> = (usize, &'a Seg);

/// The duration is the time between two links.
fn between(fact: &Fact, links: Option<(Link<'_>, Link<'_>)>) -> Answer {
    let Some(((_, first), (_, again))) = links else { return undecided("a frame is not named") };
    let ns = again.time_ns.saturating_sub(first.time_ns);
    holds(matches!(fact, Fact::Ns(stated) if *stated == ns), format!("it took {ns} ns"))
}

/// A duration between two packets is not longer than the capture.
fn duration(case: &Case<'_>, name: &str, fact: &Fact) -> Answer {
    let Fact::Ns(ns) = fact else { return holds(false, format!("{name} is no duration")) };
    let most_ns = case.packets.length_ns();
    let is_shorter = *ns <= most_ns || case.packets.is_stepped;
    holds(is_shorter, format!("{ns} ns, of a capture of {most_ns} ns"))
}

/// A latency is not longer than the capture and the way between the capture and the client.
fn latency(case: &Case<'_>, name: &str, fact: &Fact) -> Answer {
    let Fact::Ns(ns) = fact else { return holds(false, format!("{name} is no duration")) };
    let most_ns = case.packets.length_ns() + 2 * case.leg_ns(Side::Client) + ALIKE_NS;
    let is_shorter = *ns <= most_ns || case.packets.is_stepped;
    holds(is_shorter, format!("{ns} ns, of a capture of {most_ns} ns"))
}

/// A chance is not stated as less than if each silence were as long as the one shown, and its ACK
/// met by an application within [`REACTION_NS`].
fn by_chance(case: &Case<'_>, name: &str, fact: &Fact) -> Answer {
    let ends = ["flight_end", "said_before", "flight_rest", "full_flight_end"];
    let links = case.link(&ends).zip(case.link(&["next", "next_later"]));
    let (Some(((_, last), (_, next))), Some(one_in)) = (links, number(fact)) else {
        return undecided("a frame is not named");
    };
    let Some(Fact::Count(count)) = case.fact("count") else { return undecided("not counted") };
    let silent_ns = next.time_ns.saturating_sub(last.time_ns);
    let one = (silent_ns as f64 / REACTION_NS as f64).max(1.0);
    let most = one.powf(*count as f64).ceil();
    holds(one_in as f64 <= most, format!("{name}={one_in}, of at most {most}"))
}

fn held(case: &Case<'_>, _: &str, fact: &Fact) -> Answer {
    match case.link(&["next", "next_later", "tail_probe"]) {
        Some((_, next)) => is_number(fact, next.len),
        None => undecided("the held segment is not named"),
    }
}

/// The bytes that were in flight, as their sender knew, when the silence began.
fn flight(case: &Case<'_>, _: &str, fact: &Fact) -> Answer {
    let ends = ["flight_end", "said_before", "flight_rest", "full_flight_end"];
    let (Some((at, last)), Some(bytes)) = (case.link(&ends), number(fact)) else {
        return undecided("the end of the flight is not named");
    };
    let then_ns = last.time_ns.saturating_sub(case.leg_ns(last.from));
    let heard = case.flow.heard(then_ns, 0).min(at + 1);
    let flight = case.flow.sent(last.from, at + 1) - case.flow.acked(last.from, heard);
    holds(bytes <= flight.max(last.len), format!("{flight} bytes were in flight"))
}

/// A segment of so many bytes was sent before, and the ACK acknowledges it.
fn small_before(case: &Case<'_>, _: &str, fact: &Fact) -> Answer {
    let (Some((at, last)), Some((_, ack)), Some(bytes)) =
        (case.link(&["flight_rest"]), case.link(&["ack"]), number(fact))
    else {
        return undecided("the ACK of the small segment is not named");
    };
    let acked = ack.ack.unwrap_or(0);
    let mut before = case.flow.by(last.from, at).rev().take(64);
    let found = before.any(|it| it.len == bytes && it.end() <= acked);
    holds(found, format!("no segment of {bytes} bytes before it was acknowledged"))
}

fn unread(case: &Case<'_>, _: &str, fact: &Fact) -> Answer {
    let (Some((at, reset)), Some(bytes)) = (case.link(&["reset"]), number(fact)) else {
        return undecided("no RST is named");
    };
    let peer = reset.from.peer();
    let unread = case.flow.sent(peer, at) - case.flow.acked(peer, at + 1);
    holds(bytes <= unread + 1, format!("{unread} bytes were not acknowledged"))
}

fn idle_until_fin(case: &Case<'_>, _: &str, fact: &Fact) -> Answer {
    let (Some((at, fin)), Fact::Ns(ns)) = (case.link(&["fin"]), fact) else {
        return undecided("no FIN is named");
    };
    // The request that crossed it, or a close_notify, may have passed since.
    let mut before = case.flow.segs.iter().take(at).filter(|it| it.len > 0);
    let idle = before.any(|it| fin.time_ns.saturating_sub(it.time_ns).abs_diff(*ns) <= ALIKE_NS);
    holds(idle, "no data passed that long before the FIN")
}

/// Number of segments of the connections to the server that repeat bytes or fill a hole. The
/// originals of those that fill a hole were lost before the capture.
fn repeats(case: &Case<'_>) -> Result<i64, Doubt> {
    let Some((_, server)) = case.finding.evidence_flow else {
        return undecided("no connection is named");
    };
    let of_flow = |flow: &Flow| {
        let again =
            |(at, seg): &(usize, &Seg)| seg.takes_space() && seg.at < flow.sent(seg.from, *at);
        flow.segs.iter().enumerate().filter(again).count()
    };
    let Some(flows) = case.packets.to_server(server) else {
        return undecided("too many packets to keep");
    };
    Ok(i64::try_from(flows.map(of_flow).sum::<usize>()).unwrap_or(i64::MAX))
}

fn waited(case: &Case<'_>, _: &str, fact: &Fact) -> Answer {
    let time = |parts: &[&str]| {
        let mut links = case.finding.evidence.iter().filter(|it| parts.contains(&it.part));
        links.next().and_then(|it| case.packets.times.get(&it.frame))
    };
    let (Some(first), Some(again)) = (time(&["query", "asked"]), time(&["again", "next"])) else {
        return undecided("the second query is not named");
    };
    let ns = again.saturating_sub(*first);
    holds(matches!(fact, Fact::Ns(stated) if *stated == ns), format!("it took {ns} ns"))
}

fn unanswered(case: &Case<'_>, _: &str, fact: &Fact) -> Answer {
    let Some(Fact::Text(resolver)) = case.fact("resolver") else {
        return undecided("the resolver is not named");
    };
    if case.packets.messages_are_cut {
        return undecided("too many DNS messages to keep");
    }
    let asked = |it: &&Message| !it.is_answer && it.destination.ip().to_string() == *resolver;
    let silent = case.packets.messages().iter().filter(asked);
    let silent = silent.filter(|it| case.packets.answer(it).is_none()).count();
    let what = format!("{resolver} did not answer {silent}");
    holds(number(fact).is_some_and(|it| it <= i64::try_from(silent).unwrap_or(i64::MAX)), what)
}
