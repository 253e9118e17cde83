//! Checks the excluded look-alikes of a finding: each reason is a fact of the packets.

use super::wire::{Flow, Seg};
use super::{Case, fact_ns, fact_number};
use tcpwhy_core::app::Side;
use tcpwhy_core::model::{Cause, RuledOut};
use tcpwhy_core::wire::TcpFlags;

pub type Answer = Result<(), String>;

pub fn holds(condition: bool, what: &str) -> Answer {
    if condition { Ok(()) } else { Err(what.into()) }
}

/// The frames of the chain that matter to reasons: where the silence began, its ACK, and its end.
struct Chain<'a> {
    flow: &'a Flow,
    first: usize,
    ack: Option<usize>,
    end: usize,
}

impl Chain<'_> {
    fn end(&self) -> &Seg {
        &self.flow.segs[self.end]
    }

    fn sender(&self) -> Side {
        self.end().from
    }
}

/// Checks the reason `one` and returns what is untrue in it.
pub fn segment(case: &Case<'_>, flow: &Flow, one: &RuledOut) -> Answer {
    let finding = case.finding;
    let frames = finding.evidence.iter();
    let mut known: Vec<usize> = frames.filter_map(|it| flow.index(it.frame)).collect();
    known.sort_unstable();
    let (Some(&first), Some(&end)) = (known.first(), known.last()) else { return Ok(()) };
    let ack = finding.evidence.iter().find(|it| it.part == "ack");
    let ack = ack.and_then(|it| flow.index(it.frame));
    let chain = Chain { flow, first, ack, end };
    let sender = chain.sender();
    let (client, server) = finding.evidence_flow.unwrap_or_default();
    match (finding.cause, one.cause, one.why) {
        // Of the gap between ACK and next segment: captions say how long, and are checked there.
        (_, _, "follows_ack" | "ack_clocked" | "peer_ready" | "not_ack_clocked") => {
            clocked(case, &chain, one.why == "not_ack_clocked")
        }
        (Cause::ServerThink | Cause::ClientThink, _, "window_open") => {
            let shut = flow.segs[chain.first..chain.end]
                .iter()
                .any(|it| it.from != sender && it.window == Some(0) && !ends(it));
            holds(!shut, "the window was closed meanwhile")
        }
        (_, Cause::ZeroWindow, "window_open") if finding.cause == Cause::Reset => Ok(()),
        (_, _, "window_open") => window_open(case, &chain),
        (_, _, "held_small") => holds(chain.end().len < flow.mss(sender), "it is a full segment"),
        (_, _, "full_segment") => {
            holds(chain.end().len >= flow.mss(sender).min(536), "it is smaller than a segment")
        }
        (_, _, "cwnd_open") => {
            let leg_ns = case.leg_ns(flow, sender);
            // An ACK that was on its way then may have taken a little longer.
            let most = flow.flight_max(sender, chain.end, leg_ns + leg_ns / 8 + 1_000_000);
            let said = fact_number(finding, "flight_max_bytes").unwrap_or(0);
            holds(most >= said, &format!("less was in flight before: {most} of {said}"))?;
            holds(!flow.has_repeated(sender, chain.first), "something was sent twice before")
        }
        (Cause::PathRtt, _, "nothing_lost") => Ok(()),
        (_, _, "nothing_lost") => {
            holds(!flow.has_repeated(sender, chain.end + 1), "something was sent twice before")
        }
        (_, _, "after_loss") => {
            let shown = flow.has_repeated(sender, chain.end + 1)
                || flow.segs[..chain.end].iter().any(|it| it.from != sender && !it.sack.is_empty())
                || counted_out(flow, sender, chain.end);
            holds(shown, "no loss came before")
        }
        (_, _, "sent_again") if finding.cause == Cause::SynRetransmit => {
            holds(finding.evidence.iter().any(|it| it.part == "syn_again"), "no SYN was sent again")
        }
        (_, _, "sent_again") => holds(flow.repeats(chain.end), "it had not been sent before"),
        (Cause::AcceptQueueOverflow, _, "not_acknowledged") => {
            let mut all = 0..flow.segs.len();
            let again = all.find(|&at| {
                flow.segs[at].from == Side::Client && flow.segs[at].len > 0 && flow.repeats(at)
            });
            let unheard =
                again.is_some_and(|at| flow.acked(Side::Client, at) < flow.segs[at].end());
            holds(unheard, "the client's data was acknowledged, or sent once")
        }
        (_, _, "no_dsack" | "not_acknowledged" | "not_late")
            if matches!(finding.cause, Cause::RetransmissionTimeout | Cause::FastRecovery) =>
        {
            holds(!flow.has_dsack(sender), "a D-SACK came")?;
            let uses = flow.has_sack(sender, case.wire.offers_sack(client, server));
            if one.why == "not_acknowledged" {
                let end = chain.end();
                let acked = flow.acked(sender, chain.end);
                return holds(acked < end.end(), "it was acknowledged before");
            }
            holds(uses, "this connection has no SACK that could tell")
        }
        (_, _, "no_duplicate_acks") => {
            let acked = flow.acked(sender, chain.end);
            let within = &flow.segs[chain.first + 1..chain.end.max(chain.first + 1)];
            let duplicates = within.iter().filter(|it| {
                it.from != sender && it.len == 0 && it.ack == Some(acked) && !ends(it)
            });
            let new = flow.by(sender.peer(), chain.first + 1).any(|it| it.ack == Some(acked));
            let count = duplicates.count().saturating_sub(usize::from(!new));
            let sacks = within.iter().any(|it| it.from != sender && Flow::is_sack(it));
            holds(count < 3 && !sacks, "duplicate ACKs or SACK came")
        }
        (_, _, "sizes_pass") => {
            let len = chain.end().len.min(flow.mss(sender));
            let acked = flow.acked(sender, flow.segs.len());
            let passes =
                flow.by(sender, flow.segs.len()).any(|it| it.len >= len && it.end() <= acked);
            holds(passes, "nothing of that size got through")
        }
        (_, _, "reported") => {
            let report = finding.evidence.iter().find(|it| it.part == "duplicate_ack");
            let report = report.and_then(|it| flow.index(it.frame));
            holds(report.is_some_and(|report| report < chain.end), "nothing was reported before")
        }
        (_, _, "hole") => {
            let hole = flow.acked(sender, chain.end);
            let report = flow.by(sender.peer(), chain.end);
            let waits = report.rev().take(64).any(|it| !it.sack.is_empty() || it.ack == Some(hole));
            holds(waits, "the receiver waited for no hole")
        }
        (_, _, "dsack" | "original_arrived") => holds(flow.has_dsack(sender), "no D-SACK came"),
        (_, _, "original_late") => {
            let late = chain.end();
            let overtook = flow.by(sender, chain.end).filter(|it| it.at >= late.end());
            let mut older = overtook.map(|it| {
                let stamp = it.tsval.zip(late.tsval).map(|(it, late)| late.wrapping_sub(it) as i32);
                let id = it.ip_id.zip(late.ip_id).map(|(it, late)| late.wrapping_sub(it) as i16);
                stamp.is_some_and(|it| it < 0) || id.is_some_and(|it| it < 0)
            });
            holds(older.any(|it| it), "its timestamp and identification say nothing of that")
        }
        (_, _, "not_sent_again") => holds(!flow.repeats(chain.end), "it had been sent before"),
        (_, _, "not_zero") => {
            let within = &flow.segs[chain.first..chain.end];
            let shut =
                within.iter().any(|it| it.from != sender && it.window == Some(0) && !ends(it));
            holds(!shut, "the window was closed")
        }
        (_, _, "closed") if finding.cause == Cause::ZeroWindow => {
            let shut = flow.segs.iter().any(|it| {
                it.from != finding_sender(case, sender)
                    && it.has(TcpFlags::ACK)
                    && it.window == Some(0)
            });
            holds(shut || !flow.scales_known, "no window of 0 was offered")
        }
        (_, _, "acknowledged") => {
            let before = chain.ack.map_or(chain.end, |ack| ack + 1);
            let who = finding_sender(case, sender);
            let sent = flow.by(who, chain.end).map(|it| it.at + it.len).max().unwrap_or(0);
            let acked = flow.acked(who, before.max(chain.end));
            // A probe of one byte may be out.
            holds(acked + 1 >= sent, "something was not acknowledged")
        }
        (_, _, "flight_equals_window") => {
            let then_ns = flow.segs[chain.first].time_ns;
            let heard = flow.heard(then_ns, case.leg_ns(flow, sender)).max(1);
            let edges = flow.by(sender.peer(), heard).filter_map(|it| Some(it.ack? + it.window?));
            let room = edges.max().map(|edge| edge - flow.sent(sender, chain.end));
            let next = chain.end().len.min(flow.mss(sender));
            holds(room.is_none_or(|room| room < next), "the next segment would have fitted")
        }
        (_, _, "no_rst") => {
            let reset = flow.segs.iter().any(|it| it.from == Side::Server && it.has(TcpFlags::RST));
            holds(!reset, "a RST came")
        }
        (_, _, "handshake_seen") => {
            let ack = flow.segs.iter().any(|it| it.from == Side::Client && it.has(TcpFlags::ACK));
            holds(ack, "no final ACK is there")
        }
        (_, _, "established" | "completes") => {
            let data = flow.segs.iter().any(|it| it.len > 0);
            let answered = flow.segs.iter().any(|it| {
                it.from == Side::Client && it.has(TcpFlags::ACK) && !it.has(TcpFlags::RST)
            });
            holds(data || answered, "nothing shows that it was established")
        }
        (_, _, "before_established") => {
            let data = flow.segs.iter().any(|it| it.len > 0 && it.from == Side::Server);
            holds(!data, "the server had said something")
        }
        (_, _, "answered") => {
            let syns = flow.by(Side::Client, flow.segs.len()).filter(|it| it.has(TcpFlags::SYN));
            let frames: std::collections::HashSet<_> = syns.map(|it| it.at).collect();
            holds(frames.len() <= 1, "several SYNs were sent")
        }
        (_, _, "acked_repeat") => {
            let mut acked = false;
            let repeated = flow.segs.iter().any(|it| {
                acked |= it.from == Side::Client && it.has(TcpFlags::ACK);
                acked && it.from == Side::Server && it.has(TcpFlags::SYN)
            });
            holds(repeated, "no SYN-ACK came after its ACK")
        }
        (_, _, "busy") => {
            let idle_ns = fact_ns(finding, "idle_ns").unwrap_or(0);
            let Some(reset) = flow.segs.iter().position(|it| it.has(TcpFlags::RST)) else {
                return Ok(());
            };
            let before = flow.segs[..reset].iter().filter(|it| it.takes_space());
            let last_ns = before.map(|it| it.time_ns).max();
            let reset_ns = Some(flow.segs[reset].time_ns);
            let idle =
                reset_ns.zip(last_ns).map(|(reset_ns, last_ns)| reset_ns.saturating_sub(last_ns));
            holds(idle.is_none_or(|ns| ns <= idle_ns.max(1) + 1_000_000), "it was idle for longer")
        }
        (_, _, "idle") => {
            let idle_ns = fact_ns(finding, "idle_ns").unwrap_or(0);
            let asked = finding.evidence.iter().find(|it| it.part == "request");
            let Some(asked) = asked.and_then(|it| flow.index(it.frame)) else { return Ok(()) };
            let before = flow.segs[..asked].iter().filter(|it| it.len > 0);
            let last_ns = before.map(|it| it.time_ns).max();
            let quiet = last_ns.map(|last_ns| flow.segs[asked].time_ns.saturating_sub(last_ns));
            holds(quiet.is_none_or(|ns| ns + 1_000_000 >= idle_ns), "data passed meanwhile")
        }
        (Cause::IdleReset, _, "closed") => {
            let asked = finding.evidence.iter().find(|it| it.part == "request");
            let asked = asked.and_then(|it| flow.index(it.frame)).unwrap_or(chain.end);
            let fin = flow.by(Side::Server, asked).any(|it| it.has(TcpFlags::FIN));
            holds(fin, "no FIN of the server came before the request")
        }
        (Cause::IdleReset, _, "reset") => {
            holds(flow.segs.iter().any(|it| it.has(TcpFlags::RST)), "no RST came")
        }
        (_, _, "handshake_agrees") => {
            let at = |flag: u8, side: Side| {
                let mut of = flow.by(side, flow.segs.len()).filter(|it| it.has(flag));
                of.next().map(|it| it.time_ns)
            };
            let set_up = at(TcpFlags::SYN, Side::Client).zip(at(TcpFlags::ACK, Side::Client));
            let Some((syn_ns, ack_ns)) = set_up else {
                return Err("no handshake is shown".into());
            };
            let rtt_ns = fact_ns(finding, "rtt_ns").unwrap_or(0);
            let took_ns = ack_ns.saturating_sub(syn_ns);
            holds((rtt_ns / 2..=2 * rtt_ns).contains(&took_ns), "the handshake took another time")
        }
        (_, _, "by_size") => {
            let (lost, passed) = ("lost_bytes", "passed_bytes");
            let [lost, passed] = [lost, passed].map(|name| fact_number(finding, name).unwrap_or(0));
            holds(lost > passed && passed > 0, "the sizes are not known")
        }
        (_, _, "probes_answered" | "grows" | "ceiling_flat" | "flight_constant" | "idle_link") => {
            Ok(())
        }
        (_, _, "prompt_elsewhere") => {
            let said = fact_ns(finding, "ack_prompt_ns").unwrap_or(0);
            let least = flow.leg_ns(sender.peer()).unwrap_or(u64::MAX);
            holds(least <= said, "no ACK came as soon")
        }
        (_, _, "base_rtt" | "kernel_acks" | "transfer_waits") => Ok(()),
        (_, _, "expected" | "body_missing" | "acked") => Ok(()),
        (_, _, "before_request" | "chain_fits") => Ok(()),
        (_, _, "queue_empty" | "queue_open" | "queue_full" | "always") => Ok(()),
        (_, _, "listener" | "never_completes" | "many_flows") => Ok(()),
        (_, _, why) => Err(format!("this test knows nothing of `{why}`")),
    }
}

fn ends(seg: &Seg) -> bool {
    seg.has(TcpFlags::RST) || seg.has(TcpFlags::SYN)
}

/// Returns the side that had data to send, if a RST or a window update of its peer may be the last
/// frame of the chain.
fn finding_sender(case: &Case<'_>, otherwise: Side) -> Side {
    let with_data = case.finding.evidence.iter().find(|it| it.payload_bytes > 0);
    with_data.map_or(otherwise, |it| it.from)
}

/// A gap in the count of packets of `side` before `upto`.
fn counted_out(flow: &Flow, side: Side, upto: usize) -> bool {
    let ids: Vec<u16> = flow.by(side, upto).filter_map(|it| it.ip_id).collect();
    ids.windows(2).any(|pair| (2..0x8000).contains(&pair[1].wrapping_sub(pair[0])))
}

/// Checks that the segment that ended the silence came within the path's time of an ACK; or later,
/// if the reason says that it did not.
fn clocked(case: &Case<'_>, chain: &Chain<'_>, is_refuted: bool) -> Answer {
    let (flow, end) = (chain.flow, chain.end());
    let leg_ns = case.leg_ns(flow, end.from);
    let within = &flow.segs[..chain.end];
    let mut acks = within.iter().filter(|it| it.from != end.from && it.ack.is_some());
    let most_ns = leg_ns + leg_ns / 2 + 3_000_000.min(500_000 + case.silence_ns() / 16);
    let near = acks.any(|it| end.time_ns.saturating_sub(it.time_ns) <= most_ns);
    if is_refuted {
        // A request is an ACK, too.
        return Ok(());
    }
    holds(near, "no ACK came as shortly before")
}

/// Checks that the window that the receiver advertised last had room for the next segment.
fn window_open(case: &Case<'_>, chain: &Chain<'_>) -> Answer {
    let (flow, sender) = (chain.flow, chain.sender());
    let said = fact_number(case.finding, "window_bytes");
    let offered: Vec<i64> = flow.by(sender.peer(), chain.end).filter_map(|it| it.window).collect();
    if case.caption_of_window()
        && let Some(said) = said
    {
        // The unused rest of a window that was advertised earlier counts as a window, too.
        let left = (0..chain.end).any(|at| {
            let edges = flow.by(sender.peer(), at + 1).filter_map(|it| Some(it.ack? + it.window?));
            edges.max().is_some_and(|edge| edge - flow.acked(sender, at + 1) == said)
        });
        let known = offered.is_empty() || offered.contains(&said) || left;
        holds(known, "no segment offers that window")?;
    }
    let edges = flow.by(sender.peer(), chain.end).filter_map(|it| Some(it.ack? + it.window?));
    let Some(edge) = edges.max() else { return Ok(()) };
    let sent = flow.sent(sender, chain.end);
    let next = chain.end().at.max(sent) + chain.end().len.clamp(1, flow.mss(sender).max(1));
    let limit = if flow.repeats(chain.end) { sent } else { next };
    holds(edge >= limit, "it had no room")
}
