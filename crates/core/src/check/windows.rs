//! Checks reasons about windows, flights and closed windows.

use super::flow::Seg;
use super::reasons::ends;
use super::{Answer, Case, Chain, Doubt, holds, undecided};
use crate::wire::{Side, TcpFlags};
use std::ops::Range;

/// No window of 0 was offered in the silence.
pub(super) fn never_closed(case: &Case<'_>, chain: &Chain) -> Answer {
    let sender = case.seg(chain.end)?.from;
    let within = case.flow.segs.get(chain.first..chain.end).unwrap_or_default();
    let shut = within.iter().any(|it| it.from != sender && it.window == Some(0) && !ends(it));
    holds(!shut, "the window was closed meanwhile")
}

pub(super) fn open_at_the_reset(case: &Case<'_>, chain: &Chain) -> Answer {
    let (at, reset) = match case.link(&["reset"]) {
        Some(link) => link,
        None => (chain.end, case.seg(chain.end)?),
    };
    let mut offers = case.flow.by(reset.from.peer(), at).rev().filter(|it| !ends(it));
    let last = offers.find_map(|it| it.window);
    holds(last != Some(0), "the window was closed when the RST came")
}

/// The window that the receiver offered last had room for the next segment.
pub(super) fn window_open(case: &Case<'_>, chain: &Chain) -> Answer {
    let (flow, end) = (&case.flow, case.seg(chain.end)?);
    let peer = end.from.peer();
    let is_quoted = case.phrases.ruled_out.iter().any(|(_, why)| why.contains("had room ("));
    if let Some(said) = case.fact_number("window_bytes").filter(|_| is_quoted) {
        let mut offered = flow.by(peer, chain.end).filter_map(|it| it.window).peekable();
        let none = offered.peek().is_none();
        // The unused rest of a window that was offered earlier counts as a window, too.
        let mut furthest = i64::MIN;
        let mut left = false;
        for (at, seg) in flow.segs.iter().enumerate().take(chain.end) {
            if let Some(edge) = edge(seg).filter(|_| seg.from == peer) {
                furthest = furthest.max(edge);
            }
            left |= furthest - flow.acked(end.from, at + 1) == said;
        }
        holds(none || left || offered.any(|it| it == said), "no segment offers that window")?;
    }
    let Some(edge) = flow.edge(peer, chain.end) else {
        return undecided("the scale of the window was not captured");
    };
    let sent = flow.sent(end.from, chain.end);
    let next = end.at.max(sent) + end.len.clamp(1, flow.mss(end.from).max(1));
    let limit = if flow.repeats(chain.end) { sent } else { next };
    holds(edge >= limit, "it had no room")
}

pub(super) fn more_in_flight_before(case: &Case<'_>, chain: &Chain) -> Answer {
    let sender = case.seg(chain.end)?.from;
    let leg_ns = case.leg_ns(sender);
    // An ACK that was on its way then may have taken a little longer.
    let most = case.flow.flight_max(sender, chain.end, leg_ns + leg_ns / 8 + 1_000_000);
    let said = case.fact_number("flight_max_bytes").unwrap_or(0);
    holds(most >= said, format!("less was in flight before: {most} of {said}"))?;
    holds(!case.flow.has_repeated(sender, chain.first), "something was sent twice before")
}

/// The next segment did not fit into what was left of the window.
pub(super) fn fills_window(case: &Case<'_>, chain: &Chain) -> Answer {
    let (flow, end) = (&case.flow, case.seg(chain.end)?);
    let then_ns = case.seg(chain.first)?.time_ns;
    let heard = flow.heard(then_ns, case.leg_ns(end.from)).max(1);
    let room = flow.edge(end.from.peer(), heard).map(|edge| edge - flow.sent(end.from, chain.end));
    let next = end.len.min(flow.mss(end.from));
    holds(room.is_none_or(|room| room < next), "the next segment would have fitted")
}

/// Largest flight of each round trip of the sender of the chain, among the segments of `within`, bytes.
fn flights(case: &Case<'_>, within: Range<usize>, chain: &Chain) -> Result<Vec<i64>, Doubt> {
    let (flow, sender) = (&case.flow, case.seg(chain.end)?.from);
    let legs = flow.leg_ns(Side::Client).zip(flow.leg_ns(Side::Server));
    let Some((client_ns, server_ns)) = legs else {
        return undecided("the round trip was not captured");
    };
    let (leg_ns, rtt_ns) = (flow.leg_ns(sender).unwrap_or(0), (client_ns + server_ns).max(1));
    let mut rounds: Vec<i64> = Vec::new();
    let mut end_ns = 0;
    for (at, seg) in flow.segs.iter().enumerate().take(within.end).skip(within.start) {
        if seg.from != sender || seg.len == 0 {
            continue;
        }
        let heard = flow.heard(seg.time_ns, leg_ns).min(at + 1);
        let flight = flow.sent(sender, at + 1) - flow.acked(sender, heard);
        match rounds.last_mut().filter(|_| seg.time_ns < end_ns) {
            Some(most) => *most = flight.max(*most),
            None => {
                rounds.push(flight);
                end_ns = seg.time_ns + rtt_ns;
            }
        }
    }
    Ok(rounds)
}

/// Returns the segments of the message that the chain lies in: between data of the peer.
fn message(case: &Case<'_>, chain: &Chain) -> Result<Range<usize>, Doubt> {
    let (flow, sender) = (&case.flow, case.seg(chain.end)?.from);
    let speaks = |at: &usize| flow.segs.get(*at).is_some_and(|it| it.from != sender && it.len > 0);
    let start = (0..=chain.end).rev().find(speaks).map_or(0, |at| at + 1);
    let end = (chain.end..flow.segs.len()).find(speaks).unwrap_or(flow.segs.len());
    Ok(start..end)
}

pub(super) fn grows(case: &Case<'_>, chain: &Chain) -> Answer {
    let rounds = flights(case, message(case, chain)?, chain)?;
    // The last flight may be the rest of a message.
    let [first, between @ .., _] = rounds.as_slice() else {
        return undecided("too few round trips");
    };
    match between.iter().max() {
        Some(most) if most > first => Ok(()),
        Some(most) if most < first => {
            Err(Doubt::False(format!("it shrank from {first} to {most} bytes")))
        }
        // The first may be counted together with the next.
        _ => undecided("too few round trips"),
    }
}

/// The largest flight of the last round trips did not double, as slow start would make it.
pub(super) fn flat(case: &Case<'_>, chain: &Chain) -> Answer {
    let rounds = flights(case, 0..chain.end, chain)?;
    let [.., before, last] = rounds.as_slice() else { return undecided("too few round trips") };
    let mss = case.flow.mss(case.seg(chain.end)?.from);
    holds(*last < 2 * (*before).max(mss), format!("it grew from {before} to {last} bytes"))
}

/// The sender sent nothing between the beginning of the wait and its end.
pub(super) fn idle(case: &Case<'_>, chain: &Chain) -> Answer {
    let end = case.seg(chain.end)?;
    let flow = &case.flow;
    let mut within = flow.segs.iter().enumerate().take(chain.end).skip(chain.first + 1);
    let new = |(at, it): (usize, &Seg)| {
        it.from == end.from && it.len > 0 && it.end() > flow.sent(it.from, at)
    };
    holds(!within.any(new), "data was sent meanwhile")
}

pub(super) fn closed(case: &Case<'_>, chain: &Chain) -> Answer {
    let sender = sender(case, case.seg(chain.end)?.from);
    let shut = case
        .flow
        .segs
        .iter()
        .any(|it| it.from != sender && it.has(TcpFlags::ACK) && it.window == Some(0));
    match case.flow.scales_known {
        true => holds(shut, "no window of 0 was offered"),
        false => undecided("the scale of the window was not captured"),
    }
}

pub(super) fn all_acknowledged(case: &Case<'_>, chain: &Chain) -> Answer {
    let sender = sender(case, case.seg(chain.end)?.from);
    let sent = case.flow.by(sender, chain.end).map(|it| it.at + it.len).max().unwrap_or(0);
    let upto = chain.ack.map_or(chain.end, |ack| ack + 1);
    let acked = case.flow.acked(sender, upto.max(chain.end));
    // A probe of one byte may be on its way.
    holds(acked + 1 >= sent, "something was not acknowledged")
}

pub(super) fn probe_answered(case: &Case<'_>, chain: &Chain) -> Answer {
    let sender = sender(case, case.seg(chain.end)?.from);
    let Some((at, probe)) = case.link(&["probe"]) else {
        return undecided("no probe is named");
    };
    let behind = case.flow.segs.get(at + 1..).unwrap_or_default();
    let answer = behind.iter().find(|it| it.from != sender);
    holds(answer.is_some() && probe.from == sender, "no packet answers the probe")
}

/// Right edge of the window that a segment offers.
fn edge(seg: &Seg) -> Option<i64> {
    Some(seg.ack? + seg.window?)
}

/// Returns the side that had data to send. A RST or a window update of its peer may be the last
/// frame of the chain.
fn sender(case: &Case<'_>, otherwise: Side) -> Side {
    let with_data = case.finding.evidence.iter().find(|it| it.payload_bytes > 0);
    with_data.map_or(otherwise, |it| it.from)
}
