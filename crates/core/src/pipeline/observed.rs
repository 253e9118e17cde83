//! Observations of the control besides look-ups, made at the end of a capture.

use super::addresses::{Addresses, Double};
use super::fragments::{FragmentJoiner, Joined};
use super::translated::{Changed, Translated};
use std::net::Ipv4Addr;

/// Fragments, addresses and translations that the report mentions.
#[derive(Default, serde::Deserialize, serde::Serialize)]
pub(crate) struct Observed {
    pub(super) joined: Joined,
    /// An example of a connection that was also captured with other addresses.
    pub(super) copy: Option<Changed>,
    /// Addresses for which two MAC addresses answered.
    pub(super) doubles: Vec<(Ipv4Addr, Double)>,
}

impl Observed {
    pub(super) fn of(
        joiner: FragmentJoiner,
        translated: Option<&Translated>,
        addresses: &Addresses,
    ) -> Self {
        Self {
            joined: joiner.finish(),
            copy: translated.and_then(Translated::example),
            doubles: addresses.doubles(),
        }
    }
}
