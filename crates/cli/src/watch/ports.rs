//! Follows the ports of a watched process on its own thread. That thread keeps the privileges with
//! which other processes are looked into; the thread that parses packets gives them up.

use std::sync::mpsc::{Receiver, sync_channel};
use std::thread;
use std::time::Duration;
use tcpwhy_live::LiveError;
use tcpwhy_live::netns::Netns;
use tcpwhy_live::process::Ports;

/// Interval at which the ports are read again.
const AGAIN: Duration = Duration::from_secs(1);

/// Ranges of ports.
type Ranges = Vec<(u16, u16)>;

/// The ports of a process, as they were read last.
pub struct Followed {
    ranges: Ranges,
    changed: Receiver<Ranges>,
}

impl Followed {
    /// Reads the ports of `pid`, which lives in `netns`, and follows them with the privileges of
    /// the calling thread.
    ///
    /// # Errors
    /// The kernel's list of sockets cannot be read.
    pub fn begin(pid: u32, netns: &Netns) -> Result<Self, LiveError> {
        let mut ports = Ports::open(pid, netns)?;
        let ranges = ports.ranges();
        let (change, changed) = sync_channel(1);
        thread::spawn(move || {
            loop {
                thread::sleep(AGAIN);
                if ports.read_again() && change.send(ports.ranges()).is_err() {
                    break;
                }
            }
        });
        Ok(Self { ranges, changed })
    }

    /// Returns the ports.
    pub fn ranges(&self) -> Ranges {
        self.ranges.clone()
    }

    /// Takes over what was read since the last call; returns whether the ports have changed.
    pub fn has_changed(&mut self) -> bool {
        let last = self.changed.try_iter().last();
        let has_changed = last.is_some();
        self.ranges = last.unwrap_or_else(|| std::mem::take(&mut self.ranges));
        has_changed
    }
}
