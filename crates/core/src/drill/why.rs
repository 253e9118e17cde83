//! Explains the verdicts on the silences of one connection: the log of decisions.

use super::followed::Whole;
use super::{Drill, DrillError};
use crate::capture::FrameId;
use crate::judge;
use crate::report::{Decided, Why};
use crate::tcp::Exchange;
use std::cmp::Reverse;

/// Greatest number of silences explained per exchange; these are the longest.
const SILENCES_MAX: usize = 8;

/// Selects the silences to explain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WhyAt {
    /// The silence that this frame ended, or in which it was captured.
    Frame(FrameId),
    /// The silences of this exchange, by its number from 1.
    Exchange(u64),
}

impl Drill {
    /// Explains the silences selected by `at`. [`deciding`](Self::deciding) must have been called
    /// before the pass.
    ///
    /// # Errors
    /// [`DrillError`] if there is no such exchange, or no silence at that frame.
    pub fn explain(self, at: WhyAt) -> Result<Why, DrillError> {
        let frame = match at {
            WhyAt::Frame(frame) => Some(frame),
            WhyAt::Exchange(_) => None,
        };
        let no_silence = DrillError::NoSilence { frame: frame.unwrap_or_default().number() };
        let Some(whole) = self.followed.finish() else { return Err(no_silence) };
        let number = match at {
            WhyAt::Frame(frame) => whole.exchange_at(frame).map(|index| index as u64 + 1),
            WhyAt::Exchange(number) => Some(number),
        };
        let exchange = match number {
            Some(wanted) => Some(nth(&whole.exchanges, wanted)?),
            None => None,
        };
        let mut silences = decided(&whole, |from, to| match (frame, exchange) {
            (Some(frame), _) => from < frame && frame <= to,
            (None, Some(it)) => (it.first.frame..=it.last.frame).contains(&to),
            (None, None) => false,
        });
        if silences.is_empty() && frame.is_some() {
            return Err(no_silence);
        }
        let all = silences.len();
        silences.sort_by_key(|it| Reverse(it.gap.len_ns()));
        silences.truncate(SILENCES_MAX);
        silences.sort_by_key(|it| it.gap.start_ns);
        Ok(Why {
            client: whole.connection.client(),
            server: whole.connection.server(),
            omitted: (all - silences.len()) as u64,
            silences,
            exchange: number.zip(exchange.cloned()),
        })
    }
}

fn nth(exchanges: &[Exchange], wanted: u64) -> Result<&Exchange, DrillError> {
    let index = usize::try_from(wanted).unwrap_or(usize::MAX).wrapping_sub(1);
    let count = exchanges.len() as u64;
    exchanges.get(index).ok_or(DrillError::NoExchange { wanted, exchanges: count })
}

/// Returns the silences between frames for which `takes` is true, with explanations.
fn decided(whole: &Whole, takes: impl Fn(FrameId, FrameId) -> bool) -> Vec<Decided> {
    let Some(trace) = whole.connection.cold.trace() else { return Vec::new() };
    let gaps = trace.decided.iter().flatten();
    gaps.filter(|(gap, _)| takes(gap.last.frame, gap.next.frame))
        .map(|(gap, recorded)| {
            let (judged, answers) = judge::explain(gap);
            let judged = judged.iter().copied().collect();
            Decided { gap: *gap, answers, judged, recorded: recorded.clone() }
        })
        .collect()
}
