//! Assigns captures to one of two places.

use crate::capture::{CaptureSet, FrameId, Site};
use crate::model::Place;
use std::sync::Arc;

/// The places at which the captures of an input were taken.
#[derive(Clone, Debug, Default)]
pub struct Sites {
    /// The place of each input; empty if all inputs were captured at one place.
    sites: Arc<[Site]>,
    /// Start of the captures of each place, ns.
    pub(crate) began_ns: [u64; 2],
}

impl Sites {
    /// Returns the places of `capture`.
    pub fn of(capture: &CaptureSet) -> Self {
        let are_two = capture.inputs().iter().any(|input| input.site.is_second);
        let sites = capture.inputs().iter().filter(|_| are_two).map(|input| input.site);
        Self { sites: sites.collect(), began_ns: capture.began_ns() }
    }

    /// Returns whether there are two places.
    pub fn are_two(&self) -> bool {
        !self.sites.is_empty()
    }

    /// Returns the place at which a frame was captured.
    pub fn place(&self, frame: FrameId) -> Place {
        let site = self.sites.get(frame.file() as usize);
        usize::from(site.is_some_and(|site| site.is_second))
    }

    /// Returns by how much the clock of the second place was set back, ns.
    pub fn ahead_ns(&self) -> i64 {
        self.sites.iter().find(|site| site.is_second).map_or(0, |site| site.ahead_ns)
    }
}
