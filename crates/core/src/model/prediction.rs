//! The latency that is predicted without a cause.

use super::Latency;

/// Latency predicted without a cause: an interval for each percentile. `findings/prediction.rs`
/// derives its ends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Deserialize, serde::Serialize)]
pub struct Prediction {
    /// Latency of the exchanges if the cost of the cause, and nothing else, were gone.
    #[serde(flatten)]
    pub likely: Latency,
    /// Lower ends.
    pub least: Latency,
    /// Upper ends.
    pub most: Latency,
}

impl Prediction {
    /// Returns a prediction of exactly `latency`.
    pub fn exactly(latency: Latency) -> Self {
        Self { likely: latency, least: latency, most: latency }
    }
}
