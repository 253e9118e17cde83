//! Observes the server's receive window while the body of a request waits for it. The client's own
//! socket shows the size of the window.
//!
//! Read first: `tcp_write_xmit` and `tcp_chrono_start` of Linux on what counts as `rwnd_limited`.

use std::net::TcpStream;
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use tcpwhy_core::experiment::PeerWindow;
use tcpwhy_live::sys::tcp_info;
use tcpwhy_live::tcp_info::TcpInfo;

/// Time between two observations: a wait that is long enough to matter (20 ms) contains about ten.
const OBSERVATION_INTERVAL: Duration = Duration::from_millis(2);

/// Runs `asking`, and observes the window of the socket's peer meanwhile.
pub fn watched<T: Send>(socket: &TcpStream, asking: impl FnOnce() -> T) -> (T, PeerWindow) {
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        let watching = scope.spawn(|| {
            let mut seen = HeldWindow::default();
            while !is_over.load(Ordering::Relaxed) {
                if let Ok(info) = tcp_info(socket.as_fd()) {
                    seen.take(&info);
                }
                thread::sleep(OBSERVATION_INTERVAL);
            }
            seen.verdict()
        });
        let done = asking();
        is_over.store(true, Ordering::Relaxed);
        (done, watching.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
    })
}

/// The window while it held data back.
#[derive(Default)]
struct HeldWindow {
    /// Number of observations at which it held data back.
    count: u64,
    /// Number of those at which it had no room for a segment.
    closed: u64,
    /// Number of those at which the data that it let through waited in a queue for longer than the
    /// path takes.
    queued: u64,
    least_bytes: Option<u64>,
    most_bytes: u64,
}

impl HeldWindow {
    fn take(&mut self, info: &TcpInfo) {
        let Some(window_bytes) = info.tcpi_snd_wnd_bytes else { return };
        let mss_bytes = info.tcpi_snd_mss_bytes;
        let flight_bytes = info.tcpi_unacked * mss_bytes;
        if info.tcpi_notsent_bytes == 0 || flight_bytes + mss_bytes <= window_bytes {
            return;
        }
        self.count += 1;
        if window_bytes < mss_bytes {
            self.closed += 1;
        }
        if info.tcpi_rtt_us >= 2 * info.tcpi_min_rtt_us {
            self.queued += 1;
        }
        let least = self.least_bytes.get_or_insert(window_bytes);
        *least = (*least).min(window_bytes);
        self.most_bytes = self.most_bytes.max(window_bytes);
    }

    /// Returns that the window is closed if it was closed most of the time, and small if it was
    /// always small. If it was more than twice as large at times, either the receiver makes room or
    /// unread data fill it: the result is unknown. It is also unknown if the round trip was at
    /// least twice its minimum most of the time: a segment then waits in a queue, or for its
    /// reader, for as long as it travels.
    fn verdict(&self) -> PeerWindow {
        let Some(least_bytes) = self.least_bytes else { return PeerWindow::Unknown };
        if 2 * self.closed >= self.count {
            return PeerWindow::Closed;
        }
        match self.most_bytes <= 2 * least_bytes && 2 * self.queued < self.count {
            true => PeerWindow::Small { bytes: self.most_bytes },
            false => PeerWindow::Unknown,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verdict(windows: impl IntoIterator<Item = (u64, u64)>) -> PeerWindow {
        verdict_at(40_500, windows)
    }

    /// Returns the verdict on these windows, on a path of 40 ms, if the kernel measures a round
    /// trip of `rtt_us`.
    fn verdict_at(rtt_us: u64, windows: impl IntoIterator<Item = (u64, u64)>) -> PeerWindow {
        let mut seen = HeldWindow::default();
        for (snd_wnd_bytes, unacked) in windows {
            seen.take(&TcpInfo {
                tcpi_snd_wnd_bytes: Some(snd_wnd_bytes),
                tcpi_unacked: unacked,
                tcpi_snd_mss_bytes: 1_448,
                tcpi_notsent_bytes: 100_000,
                tcpi_rtt_us: rtt_us,
                tcpi_min_rtt_us: 40_000,
                ..TcpInfo::default()
            });
        }
        seen.verdict()
    }

    #[test]
    fn a_window_that_is_shut_most_of_the_time_is_closed_and_one_that_stays_narrow_small() {
        assert_eq!(verdict([(60_000, 41), (0, 0), (0, 0)]), PeerWindow::Closed);
        assert_eq!(verdict([(7_240, 5), (5_792, 4)]), PeerWindow::Small { bytes: 7_240 });
    }

    #[test]
    fn windows_that_open_or_hold_nothing_back_give_no_verdict() {
        assert_eq!(verdict([(14_480, 10), (65_160, 45)]), PeerWindow::Unknown);
        // There is room for more: something else limits the sender.
        assert_eq!(verdict([(65_160, 10)]), PeerWindow::Unknown);
        assert_eq!(verdict([]), PeerWindow::Unknown);
        // The window is full, and its contents wait in a queue.
        assert_eq!(verdict_at(90_000, [(524_288, 362), (524_288, 362)]), PeerWindow::Unknown);
    }
}
