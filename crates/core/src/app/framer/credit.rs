//! Flow control above TCP, and the time that it needs.

use super::Framer;
use crate::app::flow_control::{Credit, Passing};
use crate::app::machine::Machine;
use crate::wire::Side;

impl Framer {
    /// Sets when the following pushes passed the vantage.
    #[inline]
    pub fn set_passing(&mut self, passing: Passing) {
        match &mut self.machine {
            Machine::Frames(frames) => frames.passing = passing,
            Machine::Tls(tls) => {
                if let Some(inside) = tls.inside_mut() {
                    inside.framer.set_passing(passing);
                }
            }
            _ => {}
        }
    }

    /// Returns the window of HTTP/2 that held `side` back, if it has sent exactly as much as that
    /// allowed, is between two frames, and was granted more since.
    pub fn credit(&self, side: Side) -> Option<Credit> {
        let it = self.spoken_by();
        match &it.machine {
            Machine::Frames(frames) if it.skip[side] == 0 => frames.credit(side),
            _ => None,
        }
    }
}
