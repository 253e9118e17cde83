//! Follows the ports of a watched process, which the process with rights reads.

use std::time::{Duration, Instant};
use tcpwhy_privileged::{Helper, HelperError, Request};

/// Interval at which the ports are read again.
const AGAIN: Duration = Duration::from_secs(1);

/// How long the first reading may take, on a host with very many processes.
const FIRST_WAIT: Duration = Duration::from_secs(60);

/// Ranges of ports.
type Ranges = Vec<(u16, u16)>;

/// The ports of a process, as they were read last.
pub struct Followed {
    helper: Helper,
    ranges: Ranges,
    /// Time of the last request.
    asked: Instant,
    is_waiting: bool,
}

impl Followed {
    /// Reads the ports by `helper`, which is permitted to, and follows them.
    ///
    /// # Errors
    /// The kernel's list of sockets cannot be read.
    pub fn begin(helper: Helper) -> Result<Self, HelperError> {
        helper.ask(&Request::Ports)?;
        let ranges = helper.ports(FIRST_WAIT)?.flatten().unwrap_or_default();
        Ok(Self { helper, ranges, asked: Instant::now(), is_waiting: false })
    }

    /// Returns the ports.
    pub fn ranges(&self) -> Ranges {
        self.ranges.clone()
    }

    /// Takes over what was read since the last call; returns whether the ports have changed.
    pub fn has_changed(&mut self) -> bool {
        let mut has_changed = false;
        if self.is_waiting {
            match self.helper.ports(Duration::ZERO) {
                Ok(None) => return false,
                Ok(Some(None)) | Err(_) => {}
                Ok(Some(Some(ranges))) => {
                    self.ranges = ranges;
                    has_changed = true;
                }
            }
            self.is_waiting = false;
        }
        if self.asked.elapsed() >= AGAIN {
            self.asked = Instant::now();
            // A process that has ended is noticed elsewhere; the last ports stay.
            self.is_waiting = self.helper.ask(&Request::Ports).is_ok();
        }
        has_changed
    }

    /// Returns the CPU time of the process that reads.
    pub fn cpu_time(&self) -> Duration {
        self.helper.cpu_time()
    }
}
