//! Decides which end is the client if the handshake was not captured.

use crate::app::{Side, sender_side};
use crate::tcp::connection::Connection;
use crate::tcp::setup::Setup;
use crate::tcp::timeline::Timeline;
use crate::wire::Segment;

impl Connection {
    /// Determines client and server from `segment`. Ports only suggest the roles. A message that
    /// can only be a request or only a response determines them; exchanges that were found before
    /// that are dropped.
    #[cold]
    pub(super) fn learn_roles(&mut self, segment: &Segment, payload: &[u8]) {
        let from_client = segment.from_high() == self.client_is_high;
        let side = if from_client { Side::Client } else { Side::Server };
        if self.has_exchanged() {
            self.knows_roles = true;
            return;
        }
        // In the middle of a message any bytes may occur.
        if self.timeline.active == Some(side) {
            return;
        }
        let Some(sender_side) = sender_side(payload) else { return };
        self.knows_roles = true;
        if sender_side != side {
            self.swap_roles();
        }
    }

    fn swap_roles(&mut self) {
        self.client_is_high = !self.client_is_high;
        self.senders.swap(0, 1);
        self.streams.swap(0, 1);
        self.path.swap();
        self.setup = Setup::default();
        self.timeline = Timeline::new();
        self.software = None;
        self.framer.begin_again(self.server().port);
        let Some(cold) = &mut self.cold else { return };
        if let Some(echoes) = &mut cold.echoes {
            echoes.swap(0, 1);
        }
        if let Some(ending) = &mut cold.ending {
            ending.fin_ns.swap(0, 1);
            ending.fin.swap(0, 1);
        }
        cold.kept.clear();
        (cold.suspended, cold.contested, cold.doubted) = (None, None, None);
        cold.fast = None;
    }
}
