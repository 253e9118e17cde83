//! Who sent much to whom, and when: what `shared_link` joins when all is known.

use crate::app::Side;
use crate::capture::FrameId;
use crate::cause::Cause;
use crate::tcp::{Connection, Standing};
use crate::wire::Endpoint;

/// Flows kept per shard, the earliest.
const FLOWS_MAX: usize = 1 << 8;

/// All that one side of a connection sent.
#[derive(Clone, Debug)]
pub struct Flow {
    pub(in crate::cause) client: [u8; 16],
    pub(in crate::cause) server: Endpoint,
    pub(in crate::cause) sender: Side,
    /// The connection's first frame.
    pub(in crate::cause) connection: FrameId,
    /// Its time, from the first packet to the last data, ns.
    pub(in crate::cause) span_ns: [u64; 2],
    pub(in crate::cause) bytes: u64,
    /// It looked as if a send buffer had held it back.
    pub(in crate::cause) is_held: bool,
    /// The rate of its path as far as that is known, bits per second.
    pub(in crate::cause) path_bps: Option<u64>,
}

/// The flows of one shard.
#[derive(Clone, Debug, Default)]
pub struct Flows(Vec<Flow>);

impl Flows {
    /// A connection is over.
    pub fn connection(&mut self, connection: &Connection) {
        for sender in Side::ALL {
            let half = &connection.halves[sender as usize];
            let (bytes, Some(bulk)) = (half.sent_bytes(), half.bulk.as_ref()) else { continue };
            if bytes <= Standing::TRANSFER_BYTES {
                continue;
            }
            let rate = bulk.pipe.rate_known();
            let causes = connection.totals.causes[sender as usize];
            self.0.push(Flow {
                client: connection.client().address,
                server: connection.server(),
                sender,
                connection: connection.first_frame,
                span_ns: [connection.first_ns, half.last.time_ns],
                bytes,
                is_held: causes & 1 << Cause::SendBuffer as u64 > 0,
                path_bps: rate.map(|rate| rate.saturating_mul(8)),
            });
            self.bound();
        }
    }

    /// Drops what is too much, once there is a quarter more: so it is rarely sorted.
    fn bound(&mut self) {
        if self.0.len() >= FLOWS_MAX + FLOWS_MAX / 4 {
            self.0.sort_unstable_by_key(|flow| (flow.span_ns, flow.connection, flow.sender));
            self.0.truncate(FLOWS_MAX);
        }
    }

    /// Adds all of another shard.
    pub fn merge(&mut self, other: Self) {
        self.0.extend(other.0);
        self.bound();
    }

    /// All of them.
    pub(in crate::cause) fn iter(&self) -> impl Iterator<Item = &Flow> {
        self.0.iter()
    }
}
