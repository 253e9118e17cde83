//! The latency that is predicted without a cause. `findings/prediction.rs` derives it.

use super::Latency;

/// Latency predicted without a cause: for each percentile the likely value, and the ends of the
/// interval in which it will lie.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Deserialize, serde::Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
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
