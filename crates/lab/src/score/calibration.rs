//! Whether findings are right as often as the tool says it is sure of them.

use serde::{Serialize, Serializer, ser::SerializeStruct};

use super::judge::Judged;

/// Findings of a range of stated confidence.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Bin {
    /// From this confidence on.
    pub from: f64,
    /// Below this one; the last includes 1.
    pub to: f64,
    /// How many findings say so.
    pub findings: u64,
    /// How many of them are right.
    pub right: u64,
    /// The share that has to be right; none where nothing is promised.
    pub right_min: Option<f64>,
    /// What the bar is called.
    pub(super) bar_name: Option<&'static str>,
}

impl Bin {
    const fn new(from: f64, to: f64, right_min: Option<f64>, name: Option<&'static str>) -> Self {
        Self { from, to, findings: 0, right: 0, right_min, bar_name: name }
    }

    /// The share that is right; none without a finding.
    pub fn right_share(&self) -> Option<f64> {
        (self.findings > 0).then(|| self.right as f64 / self.findings as f64)
    }

    /// In words: `0.70 to 0.90`.
    pub fn range(&self) -> String {
        match self {
            Self { from, .. } if *from <= 0.0 => format!("below {:.2}", self.to),
            Self { to, .. } if *to >= 1.0 => format!("{:.2} or more", self.from),
            Self { from, to, .. } => format!("{from:.2} to {to:.2}"),
        }
    }
}

/// With the share, which can be computed from the rest.
impl Serialize for Bin {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut object = serializer.serialize_struct("Bin", 6)?;
        object.serialize_field("from", &self.from)?;
        object.serialize_field("to", &self.to)?;
        object.serialize_field("findings", &self.findings)?;
        object.serialize_field("right", &self.right)?;
        object.serialize_field("right_share", &self.right_share())?;
        object.serialize_field("right_min", &self.right_min)?;
        object.end()
    }
}

/// What is promised: who reads 0.9 may act on it, who reads 0.7 should look first, and below that
/// a finding is a hint.
const BINS: [Bin; 3] = [
    Bin::new(0.9, 1.0, Some(0.97), Some("confidence 0.90 or more is right")),
    Bin::new(0.7, 0.9, Some(0.80), Some("confidence 0.70 to 0.90 is right")),
    Bin::new(0.0, 0.7, None, None),
];

/// The findings that were judged, by stated confidence, the surest first. Those that say
/// nothing of it are left out.
pub(super) fn bins(judged: &[Judged]) -> Vec<Bin> {
    let mut bins = BINS;
    for stated in judged.iter().flat_map(|one| &one.stated) {
        if let Some(bin) = bins.iter_mut().find(|bin| stated.confidence >= bin.from) {
            bin.findings += 1;
            bin.right += u64::from(stated.right);
        }
    }
    bins.into()
}
