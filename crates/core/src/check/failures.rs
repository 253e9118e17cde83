//! Checks the reasons why a failure is not one of its look-alikes.

use super::flow::Seg;
use super::reasons::Checker;
use super::{Case, Chain, holds, undecided};
use crate::model::Cause;
use crate::wire::{Side, TcpFlags};

/// A connection that nobody used for that long was idle, ns.
const IDLE_NS: u64 = 1_000_000_000;

/// Returns the checker of the reason `why` in a finding of a failure; `None` for other causes.
pub(super) fn of(cause: Cause, why: &str) -> Option<Checker> {
    Some(match (cause, why) {
        (Cause::ErrorResponses, "answered" | "complete") => |case, chain| {
            holds(answers(case, chain).any(|it| it.len > 0), "the server sent nothing")
        },
        (Cause::ErrorResponses, "none_lost") => |case, chain| {
            let within = case.flow.segs.iter().enumerate().skip(chain.first);
            let mut within = within.take(chain.end + 1 - chain.first.min(chain.end));
            let again = within.any(|(at, it)| it.len > 0 && case.flow.repeats(at));
            holds(!again, "something was sent twice")
        },
        (Cause::NoAnswer, "no_response") => {
            |case, chain| holds(answers(case, chain).all(|it| it.len == 0), "the server sent data")
        }
        (Cause::NoAnswer, "accepted") => |case, chain| {
            let is_ack = |it: &&Seg| it.has(TcpFlags::ACK) && !it.has(TcpFlags::SYN);
            let mut by_client = case.flow.by(Side::Client, chain.end);
            holds(by_client.any(|it| is_ack(&it)), "the client did not acknowledge the SYN-ACK")
        },
        (Cause::NoAnswer, "at_once") => |case, chain| {
            let spoke = case.flow.segs.iter().take(chain.end + 1).any(|it| it.len > 0);
            let long_ns = case.fact_ns("open_ns").is_some_and(|ns| ns >= IDLE_NS);
            holds(!spoke && !long_ns, "it had been used, or was open for long")
        },
        (Cause::NoAnswer, "received") => |case, chain| {
            let asked = case.seg(chain.first)?.at;
            let acked = answers(case, chain).find(|it| it.has(TcpFlags::FIN));
            let acked = acked.and_then(|it| it.ack);
            holds(acked.is_some_and(|ack| ack > asked), "its FIN acknowledges nothing of it")
        },
        (Cause::NoAnswer, "fin") => |case, chain| {
            let mut closes =
                answers(case, chain).filter(|it| it.has(TcpFlags::FIN) || it.has(TcpFlags::RST));
            holds(closes.next().is_some_and(|it| !it.has(TcpFlags::RST)), "a RST came first")
        },
        (Cause::NoAnswer, "has_all") => |case, chain| {
            let by_client = case.seg(chain.end)?.from == Side::Client;
            let sent = case.flow.sent(Side::Server, chain.end);
            let acked = case.flow.acked(Side::Server, chain.end + 1);
            holds(by_client && acked >= sent, "data was not acknowledged")
        },
        (Cause::Reset, "taken") => |case, chain| {
            let mut before = case.flow.segs.iter().take(chain.first);
            let spoken = before.rposition(|it| it.from == Side::Server && it.len > 0);
            let asked = spoken.map_or(0, |at| case.flow.sent(Side::Client, at));
            let acked = case.flow.acked(Side::Client, case.flow.segs.len());
            holds(acked > asked, "nothing acknowledged it")
        },
        (Cause::NoAnswer, "acknowledged") => |case, chain| {
            let acked = case.flow.acked(Side::Client, case.flow.segs.len());
            holds(acked > case.seg(chain.first)?.at, "nothing acknowledged it")
        },
        (Cause::NoAnswer, "all_silent" | "none_works") => {
            |case, chain| holds(!is_host_heard(case, chain)?, "something came from the host")
        }
        (Cause::IdleFlowDropped, "not_acknowledged") => |case, chain| {
            let acked = case.flow.acked(Side::Client, case.flow.segs.len());
            holds(acked <= case.seg(chain.first)?.at, "it was acknowledged")
        },
        (Cause::IdleFlowDropped, "no_rst") => {
            |case, chain| holds(answers(case, chain).next().is_none(), "something came back")
        }
        (Cause::IdleFlowDropped, "new_works") => {
            |case, chain| holds(is_host_heard(case, chain)?, "no other connection was answered")
        }
        _ => return None,
    })
}

/// Returns what the server sent after the first frame of the chain.
fn answers<'a>(case: &'a Case<'_>, chain: &Chain) -> impl Iterator<Item = &'a Seg> {
    case.flow.segs.iter().skip(chain.first + 1).filter(|it| it.from == Side::Server)
}

/// Returns whether any connection has a segment of the server's host after the first frame of the
/// chain.
fn is_host_heard(case: &Case<'_>, chain: &Chain) -> Result<bool, super::Doubt> {
    let since_ns = case.seg(chain.first)?.time_ns;
    let (_, server) = case.finding.evidence_flow.unwrap_or_default();
    match case.packets.is_host_heard(server, since_ns) {
        Some(heard) => Ok(heard),
        None => undecided("too many packets to keep"),
    }
}
