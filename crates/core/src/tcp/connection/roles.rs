//! Decides which end is the client if the handshake was not captured.

use crate::app::{Framer, sender_side};
use crate::model::{Cause, Outcome, Owner};
use crate::tcp::connection::Connection;
use crate::tcp::connection::asked::is_unreadable;
use crate::tcp::exchange::{Change, Exchange};
use crate::tcp::setup::Setup;
use crate::tcp::timeline::Timeline;
use crate::wire::{Segment, Side, may_be_ephemeral};

/// What the roles of client and server of a connection follow from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Roles {
    /// From the ports; a message may yet show them.
    Unknown,
    /// From the ports, and exchanges were left out because either end may be the client; a message
    /// may yet show them.
    Undirected,
    /// From the ports; no message had shown them before the first exchange was over.
    Assumed,
    /// From the handshake or from a message that only one of them sends.
    Shown,
}

impl Roles {
    /// Returns whether a message may yet show them.
    pub fn may_be_learnt(self) -> bool {
        matches!(self, Self::Unknown | Self::Undirected)
    }

    /// Returns whether either end may be the client: neither the handshake nor a message shows it, and
    /// both ports may be ephemeral.
    pub fn are_open(self, ports: [u16; 2], framer: &Framer) -> bool {
        self != Self::Shown && is_unreadable(framer) && ports.into_iter().all(may_be_ephemeral)
    }

    /// Makes the time of both applications unknown if either end may be the client. A server that
    /// works looks then like a client that pauses.
    pub fn accuse_neither(self, exchange: &mut Exchange, ports: [u16; 2], framer: &Framer) {
        if self.are_open(ports, framer) {
            for from in [(Owner::Server, Cause::ServerThink), (Owner::Client, Cause::ClientThink)] {
                exchange.revise(&Change::Unknown { from });
            }
        }
    }
}

impl Connection {
    /// Returns whether a handshake or a message shows the roles of client and server.
    pub fn shows_roles(&self) -> bool {
        self.roles == Roles::Shown
    }

    /// Returns whether exchanges were left out because either end may be the client.
    pub fn is_undirected(&self) -> bool {
        self.roles == Roles::Undirected
    }

    /// Returns whether `exchange` is left out: it may be an answer and the request that followed it,
    /// as either end may be the client, and no fault of the path took time in it. A RST ends what either end
    /// asked.
    pub(super) fn leave_out(&mut self, exchange: &Exchange) -> bool {
        let ports = [self.client().port, self.server().port];
        let leaves_out = self.mid_stream
            && exchange.is_of_applications()
            && !matches!(exchange.outcome, Outcome::Reset { .. })
            && self.roles.are_open(ports, &self.framer);
        if leaves_out {
            self.roles = Roles::Undirected;
        }
        leaves_out
    }

    /// Determines client and server from `segment`. Ports only suggest the roles. A message that
    /// can only be a request or only a response determines them; exchanges that were found before
    /// that are dropped.
    #[cold]
    pub(super) fn learn_roles(&mut self, segment: &Segment, payload: &[u8]) {
        let from_client = segment.from_high() == self.client_is_high;
        let side = if from_client { Side::Client } else { Side::Server };
        if self.view().has_exchanged() {
            self.roles = Roles::Assumed;
            return;
        }
        // In the middle of a message any bytes may occur.
        if self.timeline.active == Some(side) {
            return;
        }
        let Some(sender_side) = sender_side(payload) else { return };
        self.roles = Roles::Shown;
        if sender_side == side {
            return;
        }
        // Client and server are the other way round: what was found before is dropped.
        self.client_is_high = !self.client_is_high;
        self.senders.swap(0, 1);
        for side in Side::ALL {
            self.senders[side].set_side(side);
        }
        self.streams.swap(0, 1);
        self.path.swap();
        self.setup = Setup::default();
        self.timeline = Timeline::new();
        self.software = None;
        self.framer.begin_again(self.server().port);
        let Some(cold) = self.cold.get_mut() else { return };
        if let Some(echoes) = &mut cold.echoes {
            echoes.swap();
        }
        if let Some(ending) = &mut cold.ending {
            ending.swap();
        }
        if let Some(delays) = &mut cold.queue_delay {
            delays.swap(0, 1);
        }
        if let Some(refused) = &mut cold.refused {
            refused.swap(0, 1);
        }
        cold.kept.clear();
        cold.questions.begin_again();
    }
}
