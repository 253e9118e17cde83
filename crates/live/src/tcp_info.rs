//! `struct tcp_info` of linux/tcp.h. The struct only grows at its end, so the fields that both the
//! kernel and this code know are read.

use serde::Serialize;

/// The fields of `TCP_INFO` that explain latency, by the kernel's names with their units. A field
/// that the kernel does not know is 0, or `None` where 0 is a meaningful value.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schemas", derive(schemars::JsonSchema))]
pub struct TcpInfo {
    /// Retransmissions by timer of the oldest unacknowledged segment so far, without an answer.
    pub tcpi_retransmits: u64,
    /// Window probes or keep-alive probes without an answer.
    pub tcpi_probes: u64,
    /// Doublings of the retransmission or probe timer at present.
    pub tcpi_backoff: u64,
    /// Retransmission timeout, µs (RFC 6298).
    pub tcpi_rto_us: u64,
    /// Largest segment sent, bytes.
    pub tcpi_snd_mss_bytes: u64,
    /// Largest segment received, bytes (an estimate of the kernel).
    pub tcpi_rcv_mss_bytes: u64,
    /// Segments in flight.
    pub tcpi_unacked: u64,
    /// Segments retransmitted and not yet acknowledged.
    pub tcpi_retrans: u64,
    /// Time since data was last sent, ms.
    pub tcpi_last_data_sent_ms: u64,
    /// Time since data was last received, ms.
    pub tcpi_last_data_recv_ms: u64,
    /// Time since an ACK was last received, ms.
    pub tcpi_last_ack_recv_ms: u64,
    /// Path MTU, bytes.
    pub tcpi_pmtu_bytes: u64,
    /// Smoothed round trip, µs.
    pub tcpi_rtt_us: u64,
    /// Variation of the round trip, µs.
    pub tcpi_rttvar_us: u64,
    /// Congestion window, segments.
    pub tcpi_snd_cwnd: u64,
    /// Slow-start threshold, segments; 2,147,483,647 before the first loss.
    pub tcpi_snd_ssthresh: u64,
    /// Round trip as a receiver sees it, µs.
    pub tcpi_rcv_rtt_us: u64,
    /// Bytes per round trip for which the receive buffer is sized.
    pub tcpi_rcv_space_bytes: u64,
    /// Retransmissions since the connection began.
    pub tcpi_total_retrans: u64,
    /// Bytes that the peer has acknowledged.
    pub tcpi_bytes_acked: u64,
    /// Bytes received.
    pub tcpi_bytes_received: u64,
    /// Bytes in the send queue that have not been sent yet.
    pub tcpi_notsent_bytes: u64,
    /// Least round trip seen, µs.
    pub tcpi_min_rtt_us: u64,
    /// Segments with data that were sent.
    pub tcpi_data_segs_out: u64,
    /// Rate of the latest delivery, bytes per second.
    pub tcpi_delivery_rate_bytes_per_s: u64,
    /// Time with data in flight or waiting to be sent, µs.
    pub tcpi_busy_time_us: u64,
    /// Part of that time in which the peer's window held data back, µs.
    pub tcpi_rwnd_limited_us: u64,
    /// Part of that time in which the send buffer held data back, µs.
    pub tcpi_sndbuf_limited_us: u64,
    /// Segments that arrived out of order; 0 before Linux 5.5 too.
    pub tcpi_rcv_ooopack: u64,
    /// The peer's window, bytes; `None` before Linux 5.4.
    pub tcpi_snd_wnd_bytes: Option<u64>,
    /// The window offered to the peer, bytes; `None` before Linux 6.2.
    pub tcpi_rcv_wnd_bytes: Option<u64>,
}

impl TcpInfo {
    /// Parses the kernel's bytes, however many there are.
    pub fn parse(bytes: &[u8]) -> Self {
        let byte = |at: usize| u64::from(bytes.get(at).copied().unwrap_or(0));
        let word = |at: usize| word_at(bytes, at).unwrap_or(0);
        let long = |at: usize| {
            let octets = bytes.get(at..at + 8).and_then(|octets| octets.try_into().ok());
            octets.map_or(0, u64::from_ne_bytes)
        };
        Self {
            tcpi_retransmits: byte(2),
            tcpi_probes: byte(3),
            tcpi_backoff: byte(4),
            tcpi_rto_us: word(8),
            tcpi_snd_mss_bytes: word(16),
            tcpi_rcv_mss_bytes: word(20),
            tcpi_unacked: word(24),
            tcpi_retrans: word(36),
            tcpi_last_data_sent_ms: word(44),
            tcpi_last_data_recv_ms: word(52),
            tcpi_last_ack_recv_ms: word(56),
            tcpi_pmtu_bytes: word(60),
            tcpi_rtt_us: word(68),
            tcpi_rttvar_us: word(72),
            tcpi_snd_ssthresh: word(76),
            tcpi_snd_cwnd: word(80),
            tcpi_rcv_rtt_us: word(92),
            tcpi_rcv_space_bytes: word(96),
            tcpi_total_retrans: word(100),
            tcpi_bytes_acked: long(120),
            tcpi_bytes_received: long(128),
            tcpi_notsent_bytes: word(144),
            // The kernel writes ~0 before the first sample.
            tcpi_min_rtt_us: if word(148) == u64::from(u32::MAX) { 0 } else { word(148) },
            tcpi_data_segs_out: word(156),
            tcpi_delivery_rate_bytes_per_s: long(160),
            tcpi_busy_time_us: long(168),
            tcpi_rwnd_limited_us: long(176),
            tcpi_sndbuf_limited_us: long(184),
            tcpi_rcv_ooopack: word(224),
            tcpi_snd_wnd_bytes: word_at(bytes, 228),
            tcpi_rcv_wnd_bytes: word_at(bytes, 232),
        }
    }
}

fn word_at(bytes: &[u8], at: usize) -> Option<u64> {
    let octets = bytes.get(at..at + 4)?.try_into().ok()?;
    Some(u64::from(u32::from_ne_bytes(octets)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_beyond_the_kernels_length_are_unknown() {
        let mut bytes = vec![0u8; 192];
        bytes[68..72].copy_from_slice(&20_000u32.to_ne_bytes());
        bytes[184..192].copy_from_slice(&7u64.to_ne_bytes());
        let info = TcpInfo::parse(&bytes);
        assert_eq!((info.tcpi_rtt_us, info.tcpi_sndbuf_limited_us), (20_000, 7));
        assert_eq!(info.tcpi_snd_wnd_bytes, None);
        assert_eq!(TcpInfo::parse(&bytes[..190]).tcpi_sndbuf_limited_us, 0);
    }

    #[test]
    fn a_closed_window_differs_from_an_unknown_one() {
        let info = TcpInfo::parse(&[0; 236]);
        assert_eq!((info.tcpi_snd_wnd_bytes, info.tcpi_rcv_wnd_bytes), (Some(0), Some(0)));
    }

    #[test]
    fn no_round_trip_sample_yet_is_zero() {
        let mut bytes = vec![0u8; 160];
        bytes[148..152].copy_from_slice(&u32::MAX.to_ne_bytes());
        assert_eq!(TcpInfo::parse(&bytes).tcpi_min_rtt_us, 0);
    }
}
