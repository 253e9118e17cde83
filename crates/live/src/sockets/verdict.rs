//! Verdicts on latency from the state of a socket: one function per cause, each with the arithmetic
//! that it prints. A verdict states what the kernel reports; only packets or an experiment can show
//! whether it explains a slow request.
//!
//! Read first: RFC 9293 §3.8.6 (windows), RFC 1122 §4.2.3.4 (Nagle's algorithm), tcp(7) and
//! socket(7) (the kernel doubles a requested buffer, to leave room for its own overhead).

use serde::Serialize;
use tcpwhy_core::model::Cause;
use tcpwhy_core::model::units::{bytes, count, counted, duration, share};

use super::Socket;
use crate::diag::TcpState;
use crate::tcp_info::TcpInfo;

/// Strength of a verdict.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[cfg_attr(feature = "schemas", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Strength {
    /// The mechanism costs time now, as the kernel's counters or the state at this moment show.
    Limits,
    /// The mechanism costs time under a condition that the state does not show.
    CanLimit,
}

/// Verdict of one socket's state on one cause.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schemas", derive(schemars::JsonSchema))]
pub struct Verdict {
    /// The cause, by its public id.
    #[cfg_attr(
        feature = "schemas",
        schemars(extend("enum" = [
            "nagle_delayed_ack",
            "send_buffer",
            "receive_window",
            "zero_window",
            "retransmission_timeout",
            "syn_retransmit",
            "accept_queue_overflow",
        ]))
    )]
    pub cause: Cause,
    /// Strength of the verdict.
    pub strength: Strength,
    /// The verdict as a sentence, with the arithmetic.
    pub sentence: String,
    /// Upper bound on the rate that follows from it, bytes per second.
    pub rate_max_bytes_per_s: Option<u64>,
    /// Share of the busy time that the kernel counts for it, 0 to 1.
    #[cfg_attr(feature = "schemas", schemars(range(min = 0, max = 1)))]
    pub busy_share: Option<f64>,
}

/// The kernel's counters of limited time advance in jiffies (4 ms at 250 Hz), and each connection
/// that ever waited once has some: below a twentieth of the busy time they are not named.
const BUSY_SHARE_MIN: f64 = 0.05;

/// A share of the busy time below this can be chance: ten jiffies of 4 ms, µs.
const BUSY_MIN_US: u64 = 40_000;

/// Returns all verdicts on a socket, the strongest first.
pub fn judge(socket: &Socket) -> Vec<Verdict> {
    let mut verdicts: Vec<Verdict> = [
        accept_queue,
        syn_unanswered,
        timer,
        zero_window_peer,
        unread,
        nagle,
        send_buffer,
        peer_window,
        receive_buffer,
    ]
    .into_iter()
    .filter_map(|judge| judge(socket))
    .collect();
    verdicts.sort_by_key(|verdict| verdict.strength);
    verdicts
}

fn verdict(cause: Cause, strength: Strength, sentence: String) -> Option<Verdict> {
    Some(Verdict { cause, strength, sentence, rate_max_bytes_per_s: None, busy_share: None })
}

/// The kernel drops a connection where the queue is longer than the backlog (`sk_acceptq_is_full`).
fn accept_queue(socket: &Socket) -> Option<Verdict> {
    let listener = socket.listener?;
    if listener.accept_queue <= listener.backlog {
        return None;
    }
    let sentence = format!(
        "{} complete connections wait to be accepted and the backlog is {}: further ones are \
         dropped. The application accepts too slowly; a longer backlog (listen(2), \
         net.core.somaxconn) bridges bursts only",
        count(listener.accept_queue),
        count(listener.backlog),
    );
    verdict(Cause::AcceptQueueOverflow, Strength::Limits, sentence)
}

fn syn_unanswered(socket: &Socket) -> Option<Verdict> {
    let info = socket.tcp_info.filter(|info| info.tcpi_retransmits > 0)?;
    if socket.state != TcpState::SynSent {
        return None;
    }
    let sentence = format!(
        "the SYN was sent {} and has no answer; the next one follows after {}",
        counted(info.tcpi_retransmits + 1, "time", "times"),
        duration(info.tcpi_rto_us * 1_000),
    );
    verdict(Cause::SynRetransmit, Strength::Limits, sentence)
}

fn timer(socket: &Socket) -> Option<Verdict> {
    let info = socket.tcp_info.filter(|info| info.tcpi_retransmits > 0 && info.tcpi_unacked > 0)?;
    if socket.state == TcpState::SynSent {
        return None;
    }
    let sentence = format!(
        "the oldest segment was retransmitted {} by timer and is not acknowledged; the last ACK \
         came {} ago, and the timer stands at {}",
        counted(info.tcpi_retransmits, "time", "times"),
        duration(info.tcpi_last_ack_recv_ms * 1_000_000),
        duration(info.tcpi_rto_us * 1_000),
    );
    verdict(Cause::RetransmissionTimeout, Strength::Limits, sentence)
}

/// Unsent data wait, none are in flight, and the peer's window has no room for a segment: the
/// sender waits for the window to open (RFC 9293 §3.8.6.1, §3.8.6.2.1).
fn zero_window_peer(socket: &Socket) -> Option<Verdict> {
    let info = socket.tcp_info?;
    let window = info.tcpi_snd_wnd_bytes?;
    let waits = info.tcpi_notsent_bytes;
    if waits == 0 || info.tcpi_unacked > 0 || window >= waits.min(info.tcpi_snd_mss_bytes) {
        return None;
    }
    let probes = match (info.tcpi_probes, info.tcpi_backoff) {
        (0, 0) => "no window probe has been sent yet".to_owned(),
        (0, _) => "its window probes are answered".to_owned(),
        (n, _) => {
            format!("{} not answered yet", counted(n, "window probe is", "window probes are"))
        }
    };
    let state = match window {
        0 => "is closed".to_owned(),
        _ => format!("has {} left, less than a segment,", bytes(window)),
    };
    let sentence = format!(
        "the peer's window {state} and {} wait here: the application there does not read; {probes}",
        bytes(waits),
    );
    verdict(Cause::ZeroWindow, Strength::Limits, sentence)
}

/// Unread data fill the receive window: no further full segment may come before the application
/// reads (RFC 9293 §3.8.6.2.2).
fn unread(socket: &Socket) -> Option<Verdict> {
    let info = socket.tcp_info?;
    let unread = socket.unread_bytes.filter(|&unread| unread > 0)?;
    let window = info.tcpi_rcv_wnd_bytes?;
    if window >= info.tcpi_rcv_mss_bytes.max(1) || socket.state != TcpState::Established {
        return None;
    }
    let sentence = format!(
        "the application here has not read {} and the window has {} left: the peer may not send; \
         the last data came {} ago",
        bytes(unread),
        bytes(window),
        duration(info.tcpi_last_data_recv_ms * 1_000_000),
    );
    verdict(Cause::ZeroWindow, Strength::Limits, sentence)
}

/// Nagle's algorithm is enabled. It holds a segment at this moment if less than a segment waits,
/// data are in flight, and both windows have room, since then nothing else holds it.
fn nagle(socket: &Socket) -> Option<Verdict> {
    if socket.options.nodelay != Some(false) || socket.state != TcpState::Established {
        return None;
    }
    let info = socket.tcp_info?;
    let waits = info.tcpi_notsent_bytes;
    let is_small = (1..info.tcpi_snd_mss_bytes).contains(&waits);
    let in_flight = socket.unacked_bytes.unwrap_or(0).saturating_sub(waits);
    let has_window = info.tcpi_snd_wnd_bytes.is_some_and(|window| window >= in_flight + waits);
    let has_cwnd = info.tcpi_unacked < info.tcpi_snd_cwnd;
    if is_small && info.tcpi_unacked > 0 && has_window && has_cwnd && info.tcpi_retransmits == 0 {
        let cork = match socket.options.cork {
            Some(true) => " (or TCP_CORK, which is set too)",
            _ => "",
        };
        let sentence = format!(
            "TCP_NODELAY is off, and Nagle's algorithm{cork} holds {} at this moment: less than a \
             segment of {}, {} in flight, and the windows have room",
            bytes(waits),
            bytes(info.tcpi_snd_mss_bytes),
            bytes(in_flight),
        );
        return verdict(Cause::NagleDelayedAck, Strength::Limits, sentence);
    }
    let sentence = "TCP_NODELAY is off: a write of less than a segment waits while an earlier one \
                    is not acknowledged, up to the peer's delayed ACK (40 ms and more)"
        .to_owned();
    verdict(Cause::NagleDelayedAck, Strength::CanLimit, sentence)
}

/// The send buffer also holds the data in flight: at most one buffer per round trip is sent.
fn send_buffer(socket: &Socket) -> Option<Verdict> {
    let info = socket.tcp_info?;
    let busy_share = limited(&info, info.tcpi_sndbuf_limited_us);
    let locked = socket.options.sndbuf_locked == Some(true);
    let room = socket.memory.sndbuf_bytes / 2;
    let cwnd_bytes = info.tcpi_snd_cwnd * info.tcpi_snd_mss_bytes;
    // A fixed buffer below the congestion window is reached first, whatever the rate.
    let binds_first = locked && room > 0 && room < cwnd_bytes && info.tcpi_data_segs_out > 0;
    if busy_share.is_none() && !binds_first {
        return None;
    }
    let (rtt_ns, rate) = rate(room, &info)?;
    let fixed = if locked { " fixed by the application (SO_SNDBUF)" } else { "" };
    let mut sentence = format!(
        "{} of send buffer{fixed} on a path of {}: at most {}/s ({} ÷ {})",
        bytes(room),
        duration(rtt_ns),
        bytes(rate),
        bytes(room),
        duration(rtt_ns),
    );
    match busy_share {
        Some(part) => {
            sentence += &format!("; it held sending back {} of the busy time", share(part))
        }
        None => {
            sentence += &format!("; the congestion window would allow {}", bytes(cwnd_bytes));
        }
    }
    let strength = if busy_share.is_some() { Strength::Limits } else { Strength::CanLimit };
    let base = verdict(Cause::SendBuffer, strength, sentence)?;
    Some(Verdict { rate_max_bytes_per_s: Some(rate), busy_share, ..base })
}

/// The peer's window held sending back.
fn peer_window(socket: &Socket) -> Option<Verdict> {
    let info = socket.tcp_info?;
    let busy_share = limited(&info, info.tcpi_rwnd_limited_us)?;
    let window = info.tcpi_snd_wnd_bytes.filter(|&window| window > 0)?;
    let (rtt_ns, rate) = rate(window, &info)?;
    let sentence = format!(
        "the peer's window ({} now) held sending back {} of the busy time: at most {}/s on a path \
         of {}; its application reads slowly or has fixed a small SO_RCVBUF",
        bytes(window),
        share(busy_share),
        bytes(rate),
        duration(rtt_ns),
    );
    let base = verdict(Cause::ReceiveWindow, Strength::Limits, sentence)?;
    Some(Verdict { rate_max_bytes_per_s: Some(rate), busy_share: Some(busy_share), ..base })
}

/// The application has fixed the receive buffer: autotuning is off, and the window is about half of
/// the memory that the kernel allows, that is, the size asked for.
fn receive_buffer(socket: &Socket) -> Option<Verdict> {
    let info = socket.tcp_info?;
    if socket.options.rcvbuf_locked != Some(true) || info.tcpi_bytes_received == 0 {
        return None;
    }
    let room = socket.memory.rcvbuf_bytes / 2;
    let (rtt_ns, rate) = rate(room, &info)?;
    let sentence = format!(
        "{} of receive buffer fixed by the application (SO_RCVBUF) on a path of {}: at most {}/s \
         ({} ÷ {})",
        bytes(room),
        duration(rtt_ns),
        bytes(rate),
        bytes(room),
        duration(rtt_ns),
    );
    let base = verdict(Cause::ReceiveWindow, Strength::CanLimit, sentence)?;
    Some(Verdict { rate_max_bytes_per_s: Some(rate), ..base })
}

/// Returns the share of the busy time that a limit took, if it is relevant.
fn limited(info: &TcpInfo, limited_us: u64) -> Option<f64> {
    let share = limited_us as f64 / info.tcpi_busy_time_us.max(1) as f64;
    (limited_us >= BUSY_MIN_US && share >= BUSY_SHARE_MIN).then_some(share.min(1.0))
}

/// Returns the least round trip, ns, and the rate of one `window` per round trip, bytes per second.
fn rate(window: u64, info: &TcpInfo) -> Option<(u64, u64)> {
    let seen = [info.tcpi_min_rtt_us, info.tcpi_rtt_us];
    let rtt_us = seen.into_iter().find(|&rtt_us| rtt_us > 0)?;
    let rate = u128::from(window) * 1_000_000 / u128::from(rtt_us);
    Some((rtt_us * 1_000, u64::try_from(rate).unwrap_or(u64::MAX)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::diag::Memory;
    use crate::options::Options;
    use crate::sockets::Listener;

    /// An established socket on a path of 20 ms that has sent data, with nothing in its queues.
    fn socket() -> Socket {
        Socket {
            state: TcpState::Established,
            local: "10.0.0.1:80".parse().unwrap(),
            peer: "10.0.0.2:50000".parse().ok(),
            is_server: true,
            netns: None,
            process: None,
            uid: 0,
            unread_bytes: Some(0),
            unacked_bytes: Some(0),
            listener: None,
            options: Options { nodelay: Some(true), ..Options::default() },
            options_unread: None,
            memory: Memory { sndbuf_bytes: 2_626_560, rcvbuf_bytes: 131_072, ..Memory::default() },
            congestion_control: Some("cubic".into()),
            tcp_info: Some(TcpInfo {
                tcpi_rtt_us: 20_500,
                tcpi_min_rtt_us: 20_000,
                tcpi_snd_mss_bytes: 1_448,
                tcpi_rcv_mss_bytes: 1_448,
                tcpi_snd_cwnd: 100,
                tcpi_snd_wnd_bytes: Some(65_536),
                tcpi_rcv_wnd_bytes: Some(65_536),
                tcpi_data_segs_out: 1_000,
                tcpi_bytes_received: 1_000,
                tcpi_busy_time_us: 10_000_000,
                ..TcpInfo::default()
            }),
            verdicts: Vec::new(),
        }
    }

    fn with(change: impl FnOnce(&mut Socket, &mut TcpInfo)) -> Vec<(Cause, Strength)> {
        let mut socket = socket();
        let mut info = socket.tcp_info.take().unwrap();
        change(&mut socket, &mut info);
        socket.tcp_info = Some(info);
        judge(&socket).into_iter().map(|verdict| (verdict.cause, verdict.strength)).collect()
    }

    #[test]
    fn a_healthy_socket_has_no_verdict() {
        assert_eq!(with(|_, _| {}), []);
    }

    #[test]
    fn nagle_holds_a_small_segment_only_where_nothing_else_does() {
        let held = |socket: &mut Socket, info: &mut TcpInfo| {
            socket.options.nodelay = Some(false);
            info.tcpi_notsent_bytes = 612;
            info.tcpi_unacked = 1;
            socket.unacked_bytes = Some(612 + 239);
        };
        let limits = (Cause::NagleDelayedAck, Strength::Limits);
        let can_limit = (Cause::NagleDelayedAck, Strength::CanLimit);
        assert_eq!(with(held), [limits]);
        let no_window = with(|socket, info| {
            held(socket, info);
            info.tcpi_snd_wnd_bytes = Some(300);
        });
        assert_eq!(no_window, [can_limit]);
        let no_cwnd = with(|socket, info| {
            held(socket, info);
            info.tcpi_snd_cwnd = 1;
        });
        assert_eq!(no_cwnd, [can_limit]);
        let full_segment = with(|socket, info| {
            held(socket, info);
            info.tcpi_notsent_bytes = 1_448;
        });
        assert_eq!(full_segment, [can_limit]);
        let unread_option = with(|socket, info| {
            held(socket, info);
            socket.options.nodelay = None;
        });
        assert_eq!(unread_option, [], "an option that was not read says nothing");
    }

    #[test]
    fn a_send_buffer_bounds_the_rate_to_one_buffer_a_round_trip() {
        let mut small = socket();
        small.memory.sndbuf_bytes = 32_768;
        small.options.sndbuf_locked = Some(true);
        let verdicts = judge(&small);
        assert_eq!(verdicts.len(), 1);
        assert_eq!(verdicts[0].strength, Strength::CanLimit);
        assert_eq!(verdicts[0].rate_max_bytes_per_s, Some(16_384 * 50));
        assert!(verdicts[0].sentence.contains("at most 800 KiB/s (16 KiB ÷ 20 ms)"));
        let info = small.tcp_info.as_mut().unwrap();
        info.tcpi_sndbuf_limited_us = 9_000_000;
        assert_eq!(judge(&small)[0].strength, Strength::Limits);
        assert_eq!(judge(&small)[0].busy_share, Some(0.9));
    }

    #[test]
    fn a_send_buffer_above_the_congestion_window_or_not_fixed_says_nothing() {
        let above = with(|socket, _| {
            socket.options.sndbuf_locked = Some(true);
        });
        assert_eq!(above, []);
        let autotuned = with(|socket, _| socket.memory.sndbuf_bytes = 32_768);
        assert_eq!(autotuned, []);
    }

    #[test]
    fn limited_time_below_a_twentieth_or_ten_ticks_is_not_named() {
        let window = (Cause::ReceiveWindow, Strength::Limits);
        assert_eq!(with(|_, info| info.tcpi_rwnd_limited_us = 5_000_000), [window]);
        assert_eq!(with(|_, info| info.tcpi_rwnd_limited_us = 400_000), []);
        let short = with(|_, info| {
            info.tcpi_busy_time_us = 20_000;
            info.tcpi_rwnd_limited_us = 20_000;
        });
        assert_eq!(short, []);
    }

    #[test]
    fn a_closed_window_counts_where_data_waits_for_it() {
        let zero = (Cause::ZeroWindow, Strength::Limits);
        let waiting = with(|_, info| {
            info.tcpi_snd_wnd_bytes = Some(0);
            info.tcpi_notsent_bytes = 100_000;
        });
        assert_eq!(waiting, [zero]);
        assert_eq!(with(|_, info| info.tcpi_snd_wnd_bytes = Some(0)), []);
        let less_than_a_segment = with(|_, info| {
            info.tcpi_snd_wnd_bytes = Some(1_000);
            info.tcpi_notsent_bytes = 100_000;
        });
        assert_eq!(less_than_a_segment, [zero]);
        let in_flight = with(|_, info| {
            info.tcpi_snd_wnd_bytes = Some(1_000);
            info.tcpi_notsent_bytes = 100_000;
            info.tcpi_unacked = 1;
        });
        assert_eq!(in_flight, [], "the next ACK may open the window");
        let unread = with(|socket, info| {
            socket.unread_bytes = Some(60_000);
            info.tcpi_rcv_wnd_bytes = Some(0);
        });
        assert_eq!(unread, [zero]);
        let reading = with(|socket, _| socket.unread_bytes = Some(60_000));
        assert_eq!(reading, [], "the window still has room");
    }

    #[test]
    fn a_timer_counts_while_something_is_unacknowledged() {
        let timeout = (Cause::RetransmissionTimeout, Strength::Limits);
        let waiting = with(|_, info| {
            info.tcpi_retransmits = 2;
            info.tcpi_unacked = 1;
        });
        assert_eq!(waiting, [timeout]);
        let syn = with(|socket, info| {
            socket.state = TcpState::SynSent;
            info.tcpi_retransmits = 2;
            info.tcpi_unacked = 1;
        });
        assert_eq!(syn, [(Cause::SynRetransmit, Strength::Limits)]);
        assert_eq!(with(|_, info| info.tcpi_total_retrans = 5), [], "repaired long ago");
    }

    #[test]
    fn an_accept_queue_overflows_where_it_is_longer_than_the_backlog() {
        let queue = |accept_queue, backlog| {
            with(|socket, _| {
                socket.state = TcpState::Listen;
                socket.listener = Some(Listener { accept_queue, backlog, half_open: 0 });
            })
        };
        assert_eq!(queue(129, 128), [(Cause::AcceptQueueOverflow, Strength::Limits)]);
        assert_eq!(queue(128, 128), []);
    }
}
