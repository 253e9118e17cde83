//! Observes the client's own socket while a request with a body is sent: when it has arrived, and
//! which limit it met on the way.
//!
//! Read first: `tcp_write_xmit` and `tcp_chrono_start` of Linux on what counts as `rwnd_limited`, RFC
//! 5681 §3.1 (slow start) and §4.2 (delayed ACKs).

use std::net::TcpStream;
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use tcpwhy_core::experiment::{PeerWindow, Sending};
use tcpwhy_live::sys::tcp_info;
use tcpwhy_live::tcp_info::TcpInfo;

/// Time between two observations: a wait that is long enough to matter (20 ms) contains about ten.
const OBSERVATION_INTERVAL: Duration = Duration::from_millis(2);

/// Runs `asking`, which sends a request, and observes the socket meanwhile.
pub fn watched<T: Send>(socket: &TcpStream, asking: impl FnOnce() -> T) -> (T, Sending) {
    let is_over = AtomicBool::new(false);
    let began = Instant::now();
    thread::scope(|scope| {
        let watching = scope.spawn(|| {
            let mut way = Way::default();
            let mut window = HeldWindow::default();
            while !is_over.load(Ordering::Relaxed) {
                if let Ok(info) = tcp_info(socket.as_fd()) {
                    way.take(&info, crate::nanoseconds(began.elapsed()));
                    window.take(&info);
                }
                thread::sleep(OBSERVATION_INTERVAL);
            }
            Sending { held: window.count, window: window.verdict(), ..way.sending }
        });
        let done = asking();
        is_over.store(true, Ordering::Relaxed);
        (done, watching.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
    })
}

/// The way of a request to the server.
#[derive(Default)]
struct Way {
    sending: Sending,
}

impl Way {
    /// Takes an observation at `now_ns` after the begin of the request.
    fn take(&mut self, info: &TcpInfo, now_ns: u64) {
        // The bytes of the handshake's end, and a segment whose ACK may be delayed, say nothing.
        let is_on_its_way = info.tcpi_notsent_bytes > 0 || info.tcpi_unacked > 1;
        if !is_on_its_way {
            return;
        }
        // It had not arrived yet when the next observation was due.
        self.sending.acked_ns = now_ns;
        if info.tcpi_notsent_bytes == 0 {
            return;
        }
        self.sending.observed += 1;
        if is_queued(info) {
            self.sending.queued += 1;
        }
        // As `tcp_is_cwnd_limited`: in slow start the kernel may leave a part of the window unused.
        let is_full = 2 * info.tcpi_unacked > info.tcpi_snd_cwnd;
        let is_opening = info.tcpi_snd_cwnd < info.tcpi_snd_ssthresh;
        if is_full && is_opening && !is_window_full(info) {
            self.sending.slow_start += 1;
        }
    }
}

/// Returns whether what is sent waits in a queue for longer than the path takes.
fn is_queued(info: &TcpInfo) -> bool {
    info.tcpi_min_rtt_us > 0 && info.tcpi_rtt_us >= 2 * info.tcpi_min_rtt_us
}

/// Returns whether the peer's window has no room for another segment.
fn is_window_full(info: &TcpInfo) -> bool {
    let flight_bytes = info.tcpi_unacked * info.tcpi_snd_mss_bytes;
    let is_full = |window_bytes| flight_bytes + info.tcpi_snd_mss_bytes > window_bytes;
    info.tcpi_snd_wnd_bytes.is_some_and(is_full)
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
        if info.tcpi_notsent_bytes == 0 || !is_window_full(info) {
            return;
        }
        self.count += 1;
        if window_bytes < info.tcpi_snd_mss_bytes {
            self.closed += 1;
        }
        if is_queued(info) {
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

    #[test]
    fn a_request_is_on_its_way_until_all_but_one_segment_is_acknowledged() {
        let mut way = Way::default();
        let at = |unacked, notsent, cwnd, rtt_us| TcpInfo {
            tcpi_snd_wnd_bytes: Some(1 << 20),
            tcpi_unacked: unacked,
            tcpi_notsent_bytes: notsent,
            tcpi_snd_cwnd: cwnd,
            tcpi_snd_ssthresh: 2_147_483_647,
            tcpi_snd_mss_bytes: 1_448,
            tcpi_rtt_us: rtt_us,
            tcpi_min_rtt_us: 40_000,
            ..TcpInfo::default()
        };
        // Ten segments fill the initial window; twenty do after a round trip; the last is delayed.
        way.take(&at(10, 90_000, 10, 40_000), 2_000_000);
        way.take(&at(20, 60_000, 20, 40_000), 42_000_000);
        way.take(&at(20, 0, 40, 40_000), 82_000_000);
        way.take(&at(1, 0, 40, 40_000), 124_000_000);
        let Sending { acked_ns, observed, slow_start, queued, .. } = way.sending;
        assert_eq!((acked_ns, observed, slow_start, queued), (82_000_000, 2, 2, 0));
        let mut way = Way::default();
        way.take(&at(40, 90_000, 50, 90_000), 2_000_000);
        assert_eq!(way.sending.queued, 1);
        // After a loss, slow start is over (RFC 5681 §3.1).
        let mut way = Way::default();
        way.take(&TcpInfo { tcpi_snd_ssthresh: 5, ..at(10, 90_000, 10, 40_000) }, 2_000_000);
        assert_eq!(way.sending.slow_start, 0);
    }
}
