//! Compares the confidence that a tool states with the share of its findings that are right.

use serde::{Serialize, Serializer, ser::SerializeStruct};

use super::judge::Judged;

/// Findings within a range of stated confidence.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Bin {
    /// Lower bound, inclusive.
    pub from: f64,
    /// Upper bound, exclusive; the last range includes 1.
    pub to: f64,
    /// Number of findings in the range.
    pub findings: u64,
    /// Number of them that are right.
    pub right: u64,
    /// The share that has to be right; `None` if none is promised.
    pub right_min: Option<f64>,
    /// Name of the bar.
    pub(super) bar_name: Option<&'static str>,
}

impl Bin {
    const fn new(from: f64, to: f64, right_min: Option<f64>, name: Option<&'static str>) -> Self {
        Self { from, to, findings: 0, right: 0, right_min, bar_name: name }
    }

    /// Returns the share that is right; `None` without a finding.
    pub fn right_share(&self) -> Option<f64> {
        (self.findings > 0).then(|| self.right as f64 / self.findings as f64)
    }

    /// Returns the range as text: `0.70 to 0.90`.
    pub fn range(&self) -> String {
        match self {
            Self { from, .. } if *from <= 0.0 => format!("below {:.2}", self.to),
            Self { to, .. } if *to >= 1.0 => format!("{:.2} or more", self.from),
            Self { from, to, .. } => format!("{from:.2} to {to:.2}"),
        }
    }
}

/// Includes the share, which follows from the other fields.
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

/// The promised shares: a user may act on a finding of 0.9, should check one of 0.7 first, and one
/// below that is only a hint.
const BINS: [Bin; 3] = [
    Bin::new(0.9, 1.0, Some(0.97), Some("confidence 0.90 or more is right")),
    Bin::new(0.7, 0.9, Some(0.80), Some("confidence 0.70 to 0.90 is right")),
    Bin::new(0.0, 0.7, None, None),
];

/// Groups the judged findings by stated confidence, highest first. Findings without a confidence
/// are left out.
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
