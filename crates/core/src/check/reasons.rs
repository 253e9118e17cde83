//! Checks the reasons for which look-alikes are ruled out, on the connection of the evidence.

use super::failures;
use super::flow::{Flow, Seg};
use super::windows::{
    all_acknowledged, closed, fills_window, flat, grows, idle, more_in_flight_before, never_closed,
    open_at_the_reset, probe_answered, window_open,
};
use super::{Answer, Case, Chain, Doubt, holds, undecided};
use crate::model::Cause;
use crate::wire::{Side, TcpFlags};

/// Checks one reason.
pub(super) type Checker = fn(&Case<'_>, &Chain) -> Answer;

/// A quoted round trip may be less than the least one measured here, between a segment and its first
/// ACK, by this: connections of the same hosts share estimates, so a connection with few samples may
/// quote another's. ns.
const LOOSE_NS: u64 = 1_000_000;

/// Initial congestion window, segments (RFC 6928 §2).
const INITIAL_WINDOW: i64 = 10;

/// Returns the checker of the reason `why` for which a finding of `cause` is not `other`.
pub(super) fn of(cause: Cause, other: Cause, why: &str) -> Option<Checker> {
    use Cause as C;
    if let Some(checker) = failures::of(cause, why) {
        return Some(checker);
    }
    Some(match (cause, other, why) {
        (_, _, "follows_ack") => |case, chain| {
            clocked(case, chain)?;
            within_segments(case)
        },
        (_, _, "ack_clocked" | "peer_ready") => clocked,
        (_, _, "not_ack_clocked") => not_clocked,
        (C::ServerThink | C::UpstreamWait | C::ClientThink, _, "window_open") => never_closed,
        (C::Reset, C::ZeroWindow, "window_open") => open_at_the_reset,
        (_, _, "window_open") => window_open,
        (C::Http2FlowControl, _, "grant_released") => |case, chain| {
            let end = case.seg(chain.end)?;
            let sent = case.link(&["flight_end"]).map_or(0, |(_, seg)| seg.end());
            holds(case.flow.acked(end.from, chain.end) >= sent, "not all was acknowledged")
        },
        (C::Http2FlowControl, _, "stops_at_the_limit") => |case, chain| {
            let end = case.seg(chain.end)?;
            let follows = case.link(&["flight_end"]).is_none_or(|(_, seg)| seg.end() == end.at);
            holds(follows && end.len > 0, "other data lies between")
        },
        (_, _, "held_small") => held_small,
        (_, _, "full_segment") => full_segment,
        (_, _, "cwnd_open") => more_in_flight_before,
        (C::PathRtt, _, "nothing_lost") => one_syn,
        (_, _, "nothing_lost") => nothing_repeated,
        (_, _, "after_loss") => after_loss,
        (C::SynRetransmit, _, "sent_again") => |case, _| {
            let again = case.finding.evidence.iter().any(|it| it.part == "syn_again");
            holds(again, "no SYN was sent again")
        },
        (_, _, "sent_again") => {
            |case, chain| holds(case.flow.repeats(chain.end), "it had not been sent before")
        }
        (C::AcceptQueueOverflow, _, "not_acknowledged") => data_ignored,
        (C::RetransmissionTimeout, _, "not_acknowledged") => |case, chain| {
            let end = case.seg(chain.end)?;
            holds(!case.flow.has_dsack(end.from), "a D-SACK came")?;
            let acked = case.flow.acked(end.from, chain.end);
            holds(acked < end.end(), "it was acknowledged before")
        },
        (_, _, "no_dsack" | "not_late") => |case, chain| {
            let sender = case.seg(chain.end)?.from;
            holds(!case.flow.has_dsack(sender), "a D-SACK came")?;
            holds(case.flow.has_sack(sender), "this connection has no SACK that could tell")
        },
        (_, _, "no_duplicate_acks") => no_duplicate_acks,
        (_, _, "sizes_pass") => sizes_pass,
        (_, _, "reported") => |case, chain| {
            let report = case.link(&["duplicate_ack"]);
            holds(report.is_some_and(|(at, _)| at < chain.end), "nothing was reported before")
        },
        (_, _, "hole") => hole,
        (_, _, "dsack" | "original_arrived") => {
            |case, chain| holds(case.flow.has_dsack(case.seg(chain.end)?.from), "no D-SACK came")
        }
        (_, _, "acked_too_soon") => acked_too_soon,
        (_, _, "original_late") => original_late,
        (_, _, "not_sent_again") => {
            |case, chain| holds(!case.flow.repeats(chain.end), "it had been sent before")
        }
        (_, _, "not_zero") => never_closed,
        (C::ZeroWindow, _, "closed") => closed,
        (_, _, "acknowledged") => all_acknowledged,
        (_, _, "probes_answered") => probe_answered,
        (_, _, "not_expected") => |case, _| {
            let mut named = case.finding.evidence.iter();
            let asks = named.any(|it| case.packets.expects.contains(&it.frame));
            holds(!asks, "a named frame asks for 100 Continue")
        },
        (C::TlsHandshake, _, "handshake") => established,
        (C::SynRetransmit, _, "one_flow") => |_, _| undecided("other connections show it"),
        (_, _, "flight_equals_window") => fills_window,
        (_, _, "grows") => grows,
        (_, _, "ceiling_flat" | "ceiling_constant" | "flight_constant") => flat,
        (_, _, "idle_link") => idle,
        (_, _, "no_rst") => |case, _| {
            let from_server = |it: &Seg| it.from == Side::Server && it.has(TcpFlags::RST);
            holds(!case.flow.segs.iter().any(from_server), "a RST came")
        },
        (_, _, "handshake_seen") => |case, _| {
            let acks = |it: &Seg| it.from == Side::Client && it.has(TcpFlags::ACK);
            holds(case.flow.segs.iter().any(acks), "no final ACK is there")
        },
        (_, _, "first_answered") => |case, _| {
            let is_syn = |it: &&Seg| it.has(TcpFlags::SYN);
            let mut syns = case.flow.segs.iter().filter(is_syn).map(|it| it.from);
            let first = [syns.next(), syns.next()] == [Some(Side::Client), Some(Side::Server)];
            holds(first, "no SYN-ACK follows the first SYN")
        },
        (_, _, "established" | "completes") => established,
        (_, _, "before_established") => |case, chain| {
            // The ports may belong to another connection before or later.
            let mut attempt = case.flow.segs.iter().take(chain.end + 1).skip(chain.first);
            let said = attempt.any(|it| it.len > 0 && it.from == Side::Server);
            holds(!said, "the server had sent data")?;
            let mut answers = case.flow.by(Side::Server, case.flow.segs.len());
            let refused = match case.fact("reporter") {
                Some(_) => case.finding.evidence.iter().any(|it| it.part == "icmp"),
                None => answers.any(|it| it.has(TcpFlags::RST)),
            };
            holds(refused, "nothing refuses it")
        },
        (C::Refused, _, "answered") => |case, _| {
            let syns = case.flow.by(Side::Client, case.flow.segs.len());
            let at: std::collections::BTreeSet<_> =
                syns.filter(|it| it.has(TcpFlags::SYN)).map(|it| it.at).collect();
            holds(at.len() <= 1, "several SYNs were sent")
        },
        (_, _, "acked_repeat") => acked_repeat,
        (_, _, "busy") => busy,
        (_, _, "idle") => idle_before,
        (C::IdleReset, _, "closed") => |case, chain| {
            let asked = case.link(&["request"]).map_or(chain.end, |(at, _)| at);
            let fin = case.flow.by(Side::Server, asked).any(|it| it.has(TcpFlags::FIN));
            holds(fin, "no FIN of the server came before the request")
        },
        (C::IdleReset, _, "reset") => {
            |case, _| holds(case.flow.segs.iter().any(|it| it.has(TcpFlags::RST)), "no RST came")
        }
        (_, _, "handshake_agrees") => handshake_agrees,
        (_, _, "by_size") => |case, _| {
            let number = |name| case.fact_number(name).unwrap_or(0);
            let (lost, passed) = (number("lost_bytes"), number("passed_bytes"));
            holds(lost > passed && passed > 0, "the sizes are not known")
        },
        (_, _, "prompt_elsewhere") => |case, chain| {
            let said_ns = case.fact_ns("ack_prompt_ns").unwrap_or(0);
            let peer = case.seg(chain.end)?.from.peer();
            let least_ns = case.flow.leg_ns(peer).unwrap_or(u64::MAX);
            holds(least_ns <= said_ns, "no ACK came as soon")
        },
        (_, _, "base_rtt") => base_rtt,
        (_, _, "kernel_acks") => |case, _| match case.link(&["ack"]) {
            Some((_, ack)) => holds(ack.len == 0, "the ACK carries data of an application"),
            None => undecided("no ACK is named"),
        },
        (_, _, "acked_early") => acked_early,
        (_, _, "expected") => |case, _| {
            let asks =
                case.finding.evidence.iter().any(|it| case.packets.expects.contains(&it.frame));
            holds(asks, "no named frame asks for 100 Continue")
        },
        (_, _, "acked") => |case, chain| {
            let (Some((at, header)), end) = (case.link(&["flight_end"]), chain.end) else {
                return undecided("the header is not named");
            };
            let acked = case.flow.acked(header.from, end.max(at)) >= header.end();
            holds(acked, "the header was not acknowledged before the body")
        },
        (_, _, "body_missing") => |case, chain| {
            let Some((at, header)) = case.link(&["flight_end"]) else {
                return undecided("the header is not named");
            };
            let between = case.flow.segs.get(at + 1..chain.end).unwrap_or_default();
            let body = between
                .iter()
                .any(|it| it.from == header.from && it.len > 0 && it.at >= header.end());
            holds(!body, "the client sent data meanwhile")
        },
        (_, _, "before_request") => |case, chain| match case.link(&["request"]) {
            Some((at, _)) => {
                let before = case.link(&["client_hello", "server_hello", "finished"]);
                holds(before.is_none_or(|(it, _)| it <= at), "the request came before it")
            }
            None => holds(chain.first <= chain.end, "no handshake is named"),
        },
        (_, _, "chain_fits") => |case, _| {
            let Some(bytes) = case.fact_number("certificate_bytes") else {
                return undecided("no size of the certificates is stated");
            };
            let most = INITIAL_WINDOW * case.flow.mss(Side::Server);
            holds(bytes <= most, format!("{bytes} bytes exceed {most}"))
        },
        (_, _, "always") => |case, _| {
            let of_server = case.attempts();
            let Some(all) = of_server else { return undecided("too many attempts to keep") };
            let mut answered = all.filter(|it| it.is_established() || it.syn_ack_ns.is_some());
            holds(answered.next().is_none(), "a SYN-ACK answered an attempt")
        },
        (_, _, "listener") => |case, _| {
            let Some(mut all) = case.attempts() else {
                return undecided("too many attempts to keep");
            };
            holds(all.any(|it| it.syn_ack_ns.is_some()), "no SYN-ACK came")
        },
        (_, _, "never_completes") => |case, _| {
            let Some(all) = case.attempts() else {
                return undecided("too many attempts to keep");
            };
            let (all, done) = all
                .fold((0, 0), |(all, done), it| (all + 1, done + u64::from(it.is_established())));
            holds(2 * done <= all, format!("{done} of {all} attempts were completed"))
        },
        (_, _, "many_flows") => |case, _| {
            let Some(all) = case.attempts() else {
                return undecided("too many attempts to keep");
            };
            let (all, syns) = all.fold((0, 0), |(all, syns), it| (all + 1, syns + it.syns.max(1)));
            holds(2 * all >= syns, format!("{syns} SYNs belong to {all} attempts"))
        },
        (_, _, "queue_open") => |case, _| {
            let (Some((_, first)), Some((_, again))) =
                (case.link(&["syn"]), case.link(&["syn_again", "ack", "syn_ack"]))
            else {
                return undecided("no attempt is named");
            };
            let during = first.time_ns..=again.time_ns;
            let Some(mut all) = case.attempts() else {
                return undecided("too many attempts to keep");
            };
            let others = all
                .any(|it| it.is_established() && it.ack_ns.is_some_and(|ns| during.contains(&ns)));
            holds(others, "no other connection was set up meanwhile")
        },
        (_, _, "handshakes_wait" | "queue_empty" | "queue_full" | "transfer_waits") => {
            |_, _| undecided("the requests of other connections show it")
        }
        (_, _, "hardly") => |_, _| undecided("what hooks saw the threads do shows it"),
        // Of these the evidence is state of the system, or they are only in the manual.
        (C::ConntrackFull | C::ConntrackRace | C::PortExhaustion, _, _) => {
            |_, _| undecided("the state of the system shows it")
        }
        (C::Bandwidth, _, "no_idle" | "steady" | "backlog")
        | (C::Bufferbloat, _, "grows_with_flight" | "queue")
        | (C::CongestionWindow, _, "sawtooth")
        | (C::NagleDelayedAck, _, "correlated") => |_, _| undecided("many silences show it"),
        _ => return None,
    })
}

pub(super) fn ends(seg: &Seg) -> bool {
    seg.has(TcpFlags::RST) || seg.has(TcpFlags::SYN)
}

/// The segment that ended the silence came within the path's time of an ACK.
fn clocked(case: &Case<'_>, chain: &Chain) -> Answer {
    let end = case.seg(chain.end)?;
    let leg_ns = case.leg_ns(end.from);
    let mut acks = case.flow.by(end.from.peer(), chain.end).rev().filter(|it| it.ack.is_some());
    let most_ns = leg_ns + leg_ns / 2 + 3_000_000.min(500_000 + case.silence_ns() / 16);
    let near = acks.any(|it| end.time_ns.saturating_sub(it.time_ns) <= most_ns);
    holds(near, "no ACK came as shortly before")
}

/// The segment that ended the silence did not come within the path's time of a bare ACK that was
/// seen in the silence.
fn not_clocked(case: &Case<'_>, chain: &Chain) -> Answer {
    let end = case.seg(chain.end)?;
    let Some(ack) = chain.ack.and_then(|at| case.flow.segs.get(at)) else { return Ok(()) };
    let after_ns = end.time_ns.saturating_sub(ack.time_ns);
    let leg_ns = case.flow.leg_ns(end.from).unwrap_or(0);
    let what = format!("it came {after_ns} ns after an ACK, and the way takes {leg_ns}");
    holds(ack.len > 0 || after_ns >= leg_ns, what)
}

/// Of `count` of `waits` cases, no number exceeds that of the segments with data.
fn within_segments(case: &Case<'_>) -> Answer {
    let Some((count, waits)) = case.fact_number("count").zip(case.fact_number("waits")) else {
        return Ok(());
    };
    let segments = i64::try_from(case.packets.sums.segments).unwrap_or(i64::MAX);
    let within = 0 < count && count <= waits && waits <= segments;
    holds(within, format!("{count} of {waits} cases, in {segments} segments"))
}

fn held_small(case: &Case<'_>, chain: &Chain) -> Answer {
    let end = case.seg(chain.end)?;
    let most = case.flow.mss(end.from);
    holds(end.len < most, "it is a full segment")?;
    let said = case.fact_number("mss_bytes").unwrap_or(0);
    holds(said <= most, format!("mss_bytes={said}, and {most} were announced"))
}

fn full_segment(case: &Case<'_>, chain: &Chain) -> Answer {
    let end = case.seg(chain.end)?;
    holds(end.len >= case.flow.mss(end.from).min(536), "it is smaller than a segment")
}

fn nothing_repeated(case: &Case<'_>, chain: &Chain) -> Answer {
    let sender = case.seg(chain.end)?.from;
    let twice = case.flow.has_repeated(sender, chain.end + 1);
    holds(!twice, "something was sent twice before")
}

fn one_syn(case: &Case<'_>, _: &Chain) -> Answer {
    let syns = case.flow.by(Side::Client, case.flow.segs.len());
    let syns = syns.filter(|it| it.has(TcpFlags::SYN)).count();
    holds(syns <= 1, format!("{syns} SYNs were sent"))
}

fn after_loss(case: &Case<'_>, chain: &Chain) -> Answer {
    let (flow, sender) = (&case.flow, case.seg(chain.end)?.from);
    let mut reports = flow.by(sender.peer(), chain.end);
    let shown = flow.has_repeated(sender, chain.end + 1)
        || reports.any(|it| !it.sack.is_empty())
        || counted_out(flow, sender, chain.end);
    holds(shown, "no loss came before")
}

/// Returns whether the count of packets of `side` has a gap before `upto`.
fn counted_out(flow: &Flow, side: Side, upto: usize) -> bool {
    let ids: Vec<u16> = flow.by(side, upto).filter_map(|it| it.ip_id).collect();
    let steps = ids.iter().zip(ids.iter().skip(1)).map(|(before, id)| id.wrapping_sub(*before));
    steps.into_iter().any(|step| (2..0x8000).contains(&step))
}

fn data_ignored(case: &Case<'_>, _: &Chain) -> Answer {
    let flow = &case.flow;
    let again = flow
        .segs
        .iter()
        .enumerate()
        .find(|(at, seg)| seg.from == Side::Client && seg.len > 0 && flow.repeats(*at));
    let unheard = again.is_some_and(|(at, seg)| flow.acked(Side::Client, at) < seg.end());
    holds(unheard, "the client's data was acknowledged, or sent once")
}

fn no_duplicate_acks(case: &Case<'_>, chain: &Chain) -> Answer {
    let (flow, sender) = (&case.flow, case.seg(chain.end)?.from);
    let acked = flow.acked(sender, chain.end);
    let within = flow.segs.get(chain.first + 1..chain.end.max(chain.first + 1)).unwrap_or_default();
    let alike = within
        .iter()
        .filter(|it| it.from != sender && it.len == 0 && it.ack == Some(acked) && !ends(it));
    let new = flow.by(sender.peer(), chain.first + 1).any(|it| it.ack == Some(acked));
    let count = alike.count().saturating_sub(usize::from(!new));
    let sacks = within.iter().any(|it| it.from != sender && Flow::is_sack(it));
    holds(count < 3 && !sacks, "duplicate ACKs or SACK came")
}

fn sizes_pass(case: &Case<'_>, chain: &Chain) -> Answer {
    let (flow, end) = (&case.flow, case.seg(chain.end)?);
    let len = end.len.min(flow.mss(end.from));
    let acked = flow.acked(end.from, flow.segs.len());
    let mut all = flow.by(end.from, flow.segs.len());
    holds(all.any(|it| it.len >= len && it.end() <= acked), "nothing of that size got through")
}

fn hole(case: &Case<'_>, chain: &Chain) -> Answer {
    let (flow, sender) = (&case.flow, case.seg(chain.end)?.from);
    let hole = flow.acked(sender, chain.end);
    let mut reports = flow.by(sender.peer(), chain.end).rev().take(64);
    let waits = reports.any(|it| !it.sack.is_empty() || it.ack == Some(hole));
    holds(waits, "the receiver waited for no hole")
}

fn acked_too_soon(case: &Case<'_>, _: &Chain) -> Answer {
    let Some((at, again)) = case.link(&["retransmission"]) else {
        return undecided("no retransmission is named");
    };
    let behind = case.flow.segs.get(at + 1..).unwrap_or_default();
    let Some(ack) = behind.iter().find(|it| it.from != again.from && it.ack >= Some(again.end()))
    else {
        return Err(Doubt::False("nothing acknowledges it".into()));
    };
    let leg_ns = case.leg_ns(again.from.peer());
    let after_ns = ack.time_ns.saturating_sub(again.time_ns);
    holds(after_ns < leg_ns.max(1), format!("the ACK came {after_ns} ns later"))
}

fn original_late(case: &Case<'_>, chain: &Chain) -> Answer {
    let late = case.seg(chain.end)?;
    let overtook = case.flow.by(late.from, chain.end).filter(|it| it.at >= late.end());
    let mut older = overtook.map(|it| {
        let stamp = it.tsval.zip(late.tsval).map(|(it, late)| late.wrapping_sub(it) as i32);
        let id = it.ip_id.zip(late.ip_id).map(|(it, late)| late.wrapping_sub(it) as i16);
        stamp.is_some_and(|it| it < 0) || id.is_some_and(|it| it < 0)
    });
    holds(older.any(|it| it), "its timestamp and identification do not show that")
}

fn established(case: &Case<'_>, _: &Chain) -> Answer {
    let shown = case.flow.segs.iter().any(|it| {
        let acks = it.from == Side::Client && it.has(TcpFlags::ACK) && !it.has(TcpFlags::RST);
        it.len > 0 || acks
    });
    holds(shown, "nothing shows that it was established")
}

fn acked_repeat(case: &Case<'_>, _: &Chain) -> Answer {
    let mut acked = false;
    let repeated = case.flow.segs.iter().any(|it| {
        acked |= it.from == Side::Client && it.has(TcpFlags::ACK);
        acked && it.from == Side::Server && it.has(TcpFlags::SYN)
    });
    holds(repeated, "no SYN-ACK came after its ACK")
}

/// The connection was not idle for longer than stated before the RST.
fn busy(case: &Case<'_>, _: &Chain) -> Answer {
    let said_ns = case.fact_ns("idle_ns").unwrap_or(0);
    let Some(reset) = case.flow.segs.iter().position(|it| it.has(TcpFlags::RST)) else {
        return Err(Doubt::False("no RST is there".into()));
    };
    let before = case.flow.segs.iter().take(reset).filter(|it| it.takes_space());
    let Some(last_ns) = before.map(|it| it.time_ns).max() else { return Ok(()) };
    let idle_ns = case.seg(reset)?.time_ns.saturating_sub(last_ns);
    holds(idle_ns <= said_ns.max(1) + LOOSE_NS, format!("it was idle for {idle_ns} ns"))
}

/// No data passed for the stated time before the request.
fn idle_before(case: &Case<'_>, _: &Chain) -> Answer {
    let said_ns = case.fact_ns("idle_ns").unwrap_or(0);
    let Some((asked, request)) = case.link(&["request"]) else {
        return undecided("the request is not named");
    };
    let before = case.flow.segs.iter().take(asked).filter(|it| it.len > 0);
    let Some(last_ns) = before.map(|it| it.time_ns).max() else { return Ok(()) };
    let idle_ns = request.time_ns.saturating_sub(last_ns);
    holds(idle_ns + LOOSE_NS >= said_ns, format!("data passed {idle_ns} ns before"))
}

fn handshake_agrees(case: &Case<'_>, _: &Chain) -> Answer {
    let at = |flag: u8| {
        let mut of = case.flow.by(Side::Client, case.flow.segs.len()).filter(|it| it.has(flag));
        of.next().map(|it| it.time_ns)
    };
    let Some((syn_ns, ack_ns)) = at(TcpFlags::SYN).zip(at(TcpFlags::ACK)) else {
        return Err(Doubt::False("no handshake is shown".into()));
    };
    let rtt_ns = case.fact_ns("rtt_ns").unwrap_or(0);
    let took_ns = ack_ns.saturating_sub(syn_ns);
    let alike = (rtt_ns / 2..=rtt_ns.saturating_mul(2)).contains(&took_ns);
    let said_ns = case.fact_ns("handshake_ns").unwrap_or(took_ns);
    let is_said = said_ns.abs_diff(took_ns) <= LOOSE_NS;
    holds(alike && is_said, format!("the handshake took {took_ns} ns"))
}

fn base_rtt(case: &Case<'_>, _: &Chain) -> Answer {
    let Some(said_ns) = case.fact_ns("base_rtt_ns") else {
        return undecided("no base round trip is stated");
    };
    let legs = case.flow.leg_ns(Side::Client).zip(case.flow.leg_ns(Side::Server));
    let Some((client_ns, server_ns)) = legs else {
        return undecided("the round trip was not captured");
    };
    let least_ns = client_ns + server_ns;
    let most_ns = least_ns + least_ns / 8 + LOOSE_NS;
    holds(said_ns <= most_ns, format!("base_rtt_ns={said_ns}, and it took {least_ns}"))
}

fn acked_early(case: &Case<'_>, _: &Chain) -> Answer {
    let Some(said_ns) = case.fact_ns("rtt_ns") else {
        return undecided("no round trip is stated");
    };
    let flow = &case.flow;
    let asked = flow.segs.iter().enumerate();
    let mut asked = asked.filter(|(_, it)| it.from == Side::Client && it.len > 0);
    let early = asked.any(|(at, it)| {
        let mut after = flow.segs.iter().skip(at + 1).take(64);
        let ack = after.find(|ack| ack.from == Side::Server && ack.ack >= Some(it.end()));
        ack.is_some_and(|ack| ack.time_ns.saturating_sub(it.time_ns) <= said_ns + LOOSE_NS)
    });
    holds(early, format!("rtt_ns={said_ns}, and no request was acknowledged as soon"))
}
