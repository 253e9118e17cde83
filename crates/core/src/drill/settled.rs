//! Final owners of silences. The owner of a silence may change when its exchange, its connection or
//! the capture is over. The ledgers contain these changes; silences are drawn with the owners that
//! agree with the ledgers.

use crate::app::Side;
use crate::capture::FrameId;
use crate::judge;
use crate::model::{Cause, Ledger, Owner, Slice};
use crate::tcp::Exchange;

/// Smallest difference that is corrected: in ns, and as a fraction of the total.
const FLOOR_NS: u64 = 1_000_000;
const FLOOR_PART: u64 = 100;

/// A silence with its present owners.
pub(super) struct Silence {
    /// Start of the silence, ns.
    pub start_ns: u64,
    /// The frame that ended the silence.
    pub next_frame: FrameId,
    /// Slices of the silence.
    pub slices: Vec<Slice>,
}

/// Owners that have time which is not drawn, such as the transit of first and last bytes. If they
/// seem to lack time, that is weaker evidence.
const PARTLY_DRAWN: [Owner; 7] = [
    Owner::Dns,
    Owner::Connect,
    Owner::Tls,
    Owner::Path,
    Owner::Bandwidth,
    Owner::Queueing,
    Owner::Unknown,
];

/// Moves time in `silences` from owners that have more than in `ledger` to those that have less,
/// the longest slices first. Time that no owner lacks is removed: nothing waited during it.
pub(super) fn settle(silences: &mut [Silence], ledger: &Ledger, exchanges: &[Exchange]) {
    let (mut beyond_ns, floor_ns) = beyond(silences, ledger);
    let opens = has_opened(exchanges);
    let mut places: Vec<_> = silences
        .iter()
        .enumerate()
        .flat_map(|(at, it)| (0..it.slices.len()).map(move |part| (it.slices[part].ns, at, part)))
        .collect();
    places.sort_unstable_by_key(|&(ns, at, part)| (std::cmp::Reverse(ns), at, part));
    for (_, at, part) in places {
        let slices = &mut silences[at].slices;
        while let slice = slices[part]
            && beyond_ns[slice.owner as usize] >= floor_ns
        {
            let to = most_lacking(&beyond_ns, floor_ns);
            let beyond = beyond_ns[slice.owner as usize];
            let most_ns =
                to.map_or(beyond, |to| beyond.min(beyond_ns[to as usize].saturating_neg())) as u64;
            // A part that is nearly the whole slice is treated as the whole slice.
            let is_all = slice.ns < most_ns.saturating_add(floor_ns as u64);
            let ns = if is_all { slice.ns } else { most_ns };
            move_to(&mut beyond_ns, slice.owner, -signed(ns));
            slices[part].ns -= ns;
            if let Some(to) = to {
                move_to(&mut beyond_ns, to, signed(ns));
                slices.push(Slice { owner: to, cause: cause_of(to, opens), ns });
            }
            if is_all {
                break;
            }
        }
    }
}

/// Returns how much more each owner has in `silences` than in `ledger`, ns, and the threshold from
/// which a difference counts.
fn beyond(silences: &[Silence], ledger: &Ledger) -> ([i64; Owner::ALL.len()], i64) {
    let mut beyond_ns = [0; Owner::ALL.len()];
    for slice in silences.iter().flat_map(|silence| &silence.slices) {
        move_to(&mut beyond_ns, slice.owner, signed(slice.ns));
    }
    for &owner in Owner::ALL {
        move_to(&mut beyond_ns, owner, -signed(ledger.of(owner)));
    }
    (beyond_ns, signed(FLOOR_NS.max(ledger.total_ns() / FLOOR_PART)))
}

fn move_to(beyond_ns: &mut [i64; Owner::ALL.len()], owner: Owner, ns: i64) {
    let sum = &mut beyond_ns[owner as usize];
    *sum = sum.saturating_add(ns);
}

/// Converts a time; one that is too large becomes the greatest value, and not a negative one.
fn signed(ns: u64) -> i64 {
    i64::try_from(ns).unwrap_or(i64::MAX)
}

/// Returns the time that the ledger of `exchange` has and `silences` lack, for owners whose time is
/// drawn completely: the greatest first.
pub(super) fn lacking(silences: &[Silence], exchange: &Exchange) -> Vec<Slice> {
    let (beyond_ns, floor_ns) = beyond(silences, &exchange.ledger.ledger());
    let opens = has_opened(std::slice::from_ref(exchange));
    let drawn = Owner::ALL.iter().filter(|owner| !PARTLY_DRAWN.contains(owner));
    let lacking = drawn.filter(|&&owner| beyond_ns[owner as usize] <= -floor_ns);
    let mut lacking: Vec<_> = lacking
        .map(|&owner| Slice {
            owner,
            cause: cause_of(owner, opens),
            ns: beyond_ns[owner as usize].unsigned_abs(),
        })
        .collect();
    lacking.sort_by_key(|slice| std::cmp::Reverse(slice.ns));
    lacking
}

/// Returns the owner that lacks most compared with the ledger, if any lacks more than the
/// threshold.
fn most_lacking(beyond_ns: &[i64], floor_ns: i64) -> Option<Owner> {
    let most_lacking = Owner::ALL.iter().filter(|&&owner| beyond_ns[owner as usize] <= -floor_ns);
    most_lacking
        .min_by_key(|&owner| (PARTLY_DRAWN.contains(owner), beyond_ns[*owner as usize]))
        .copied()
}

/// Returns whether the only reason for waits on a congestion window in `exchanges` was slow start.
fn has_opened(exchanges: &[Exchange]) -> bool {
    let has = |cause| {
        let mut chains = exchanges.iter().flat_map(|exchange| &exchange.chains);
        chains.any(|chain| chain.cause == cause)
    };
    has(Cause::SlowStart) && !has(Cause::CongestionWindow)
}

/// Returns the cause by which `owner` has time; `opens` is the result of [`has_opened`].
fn cause_of(owner: Owner, opens: bool) -> Option<Cause> {
    match owner {
        Owner::Server => judge::busy(Side::Server, 0).cause,
        Owner::Client => judge::busy(Side::Client, 0).cause,
        Owner::CongestionWindow if opens => Some(Cause::SlowStart),
        _ => Cause::from_id(owner.id()),
    }
}

/// Returns a slice with the cause that its exchange had in the end, which may have another name
/// than during the silence.
pub(super) fn rename(slice: &Slice, exchange: &Exchange) -> Slice {
    let Some(cause) = slice.cause else { return *slice };
    let has = |cause: Cause| exchange.chains.iter().any(|chain| chain.cause == cause);
    if has(cause) {
        return *slice;
    }
    match cause.becomes().iter().find(|(later, _)| has(*later)) {
        Some(&(cause, owner)) => Slice::of(owner, cause, slice.ns),
        None => Slice::plain(slice.owner, slice.ns),
    }
}
