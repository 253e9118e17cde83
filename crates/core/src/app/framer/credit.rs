//! Flow control above TCP, and the time that it needs.

use super::Framer;
use crate::app::flow_control::{Credit, Passing};
use crate::app::machine::Machine;
use crate::wire::Side;

impl Framer {
    /// Sets when the following pushes passed the vantage.
    #[inline]
    pub fn set_passing(&mut self, passing: Passing) {
        if let Machine::Frames(frames) = &mut self.machine {
            frames.passing = passing;
        }
    }

    /// Returns the window of HTTP/2 that held `side` back, if it has sent exactly as much as that
    /// allowed, is between two frames, and was granted more since.
    pub fn credit(&self, side: Side) -> Option<Credit> {
        match &self.machine {
            Machine::Frames(frames) if self.skip[side] == 0 => frames.credit(side),
            _ => None,
        }
    }
}
