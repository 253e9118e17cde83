//! Records of connections and listeners that open and close, with the process where it is known.

use serde::Serialize;

use super::flow::{FLOW_BYTES, Fields, Flow};
use crate::diag::TcpState;

/// `struct state_record` in state.h.
const RECORD_BYTES: usize = 16 + FLOW_BYTES + 28;

/// A connection or listener that opened or closed. A connection opens in
/// [`TcpState::Established`] and closes in [`TcpState::Close`]; a listener opens in [`TcpState::Listen`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct StateChange {
    /// Time of the change by `CLOCK_MONOTONIC`, ns.
    pub time_ns: u64,
    /// Flow of the connection, this host's end as the source.
    pub flow: Flow,
    /// Inode of the network namespace.
    pub netns: u32,
    /// The process that connected, listened, or closed; `None` where only packets changed the
    /// state: a connection to a listener has an owner when it is closed.
    pub pid: Option<u32>,
    /// Name of its thread.
    pub command: String,
    /// State before.
    pub old_state: TcpState,
    /// State after.
    pub new_state: TcpState,
    /// Time for which it was open, ns; `None` if it was never open or was open before the hook was
    /// attached.
    pub open_ns: Option<u64>,
}

pub(super) fn parse(record: &[u8]) -> Option<StateChange> {
    let mut fields = Fields(record.first_chunk::<RECORD_BYTES>()?);
    let (time_ns, opened_ns) = (fields.u64(), fields.u64());
    let seen = fields.seen();
    let (pid, command) = (fields.u32(), fields.text::<16>());
    let (old_state, new_state) = (fields.u8(), fields.u8());
    Some(StateChange {
        time_ns,
        flow: seen.flow?,
        netns: seen.netns,
        pid: (pid > 0).then_some(pid),
        command,
        old_state: TcpState::from_kernel(old_state)?,
        new_state: TcpState::from_kernel(new_state)?,
        open_ns: (new_state == TcpState::Close as u8 && opened_ns > 0).then(|| time_ns - opened_ns),
    })
}
