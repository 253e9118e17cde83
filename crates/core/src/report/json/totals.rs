//! Counts and sums of time in JSON.

use crate::model::{Ledger, OutcomeKind, Outcomes, Owner, Totals, Vantage};
use serde::ser::{Serialize, SerializeMap, Serializer};
use std::collections::BTreeMap;

/// Counts over the whole input.
#[derive(serde::Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct TotalsView<'a> {
    /// TCP connections.
    connections: u64,
    /// Exchanges.
    exchanges: u64,
    outcomes: OutcomesView<'a>,
    /// Name look-ups.
    lookups: u64,
    /// TCP segments in the time told of.
    segments: u64,
    /// Sum of the exchanges' wall times.
    wall_ns: u64,
    /// First capture time, nanoseconds since the Unix epoch.
    first_ns: u64,
    /// Last capture time, nanoseconds since the Unix epoch.
    last_ns: u64,
    /// The time told of, where a filter asks for a part: what was under way then counts as a whole,
    /// what came before is known. Absent without such a filter.
    #[serde(skip_serializing_if = "Option::is_none")]
    window: Option<WindowView>,
    /// Where it was captured.
    vantage: Vantage,
    /// That the capture was taken at a host shows only in its short Ethernet frames, which are not
    /// padded yet as those of its peers are.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    #[cfg_attr(test, schemars(extend("const" = true)))]
    vantage_from_padding: bool,
    /// Frames that could not be decoded, by kind.
    #[cfg_attr(test, schemars(with = "BTreeMap<String, std::num::NonZeroU64>"))]
    decode_errors: BTreeMap<&'static str, u64>,
}

/// A part of the time.
#[derive(serde::Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct WindowView {
    /// Its beginning, nanoseconds since the Unix epoch.
    from_ns: u64,
    /// Its end, nanoseconds since the Unix epoch.
    until_ns: u64,
}

impl<'a> TotalsView<'a> {
    pub(super) fn of(totals: &'a Totals) -> Self {
        let errors = totals.decode_errors.errors().map(|(kind, count)| (kind.name(), count));
        Self {
            connections: totals.connections,
            exchanges: totals.exchanges,
            outcomes: OutcomesView(&totals.outcomes),
            lookups: totals.lookups,
            segments: totals.segments,
            wall_ns: totals.wall_ns,
            first_ns: totals.first_ns,
            last_ns: totals.last_ns,
            window: totals
                .window
                .map(|it| WindowView { from_ns: it.from_ns, until_ns: it.until_ns }),
            vantage: totals.vantage,
            vantage_from_padding: totals.vantage_from_padding,
            decode_errors: errors.collect(),
        }
    }
}

/// Wall time by owner, nanoseconds: all owners in declaration order, including those without time.
pub(super) struct LedgerView<'a>(pub(super) &'a Ledger);

impl Serialize for LedgerView<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(Owner::ALL.len()))?;
        for owner in Owner::ALL {
            map.serialize_entry(owner, &self.0.of(*owner))?;
        }
        map.end()
    }
}

/// Number of exchanges by how they ended, all outcomes in declaration order, and of errors by code.
pub(super) struct OutcomesView<'a>(pub(super) &'a Outcomes);

impl Serialize for OutcomesView<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(OutcomeKind::ALL.len() + 1))?;
        for kind in OutcomeKind::ALL {
            map.serialize_entry(kind, &self.0.of(*kind))?;
        }
        let codes = self.0.codes().into_iter().map(|(code, count)| (code.to_string(), count));
        map.serialize_entry("codes", &codes.collect::<BTreeMap<_, _>>())?;
        map.end()
    }
}
