//! The frames of Initial packets (RFC 9000 §12.4, §19).

use crate::model::quic::Close;
use crate::wire::quic::varint;
use std::ops::RangeInclusive;

/// A frame of an Initial packet, as far as it is read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Frame<'a> {
    /// Packet numbers that are acknowledged, at most [`RANGES_MAX`] ranges of them (§19.3).
    Ack(Vec<RangeInclusive<u64>>),
    /// A part of the TLS handshake (§19.6).
    Crypto {
        /// Position in the stream of this encryption level.
        offset: u64,
        /// The bytes.
        bytes: &'a [u8],
    },
    /// The sender closes the connection (§19.19).
    Close(Close),
    /// PADDING or PING.
    Other,
}

/// Maximum number of ranges of an ACK frame that are kept, the last packets first.
const RANGES_MAX: usize = 16;

/// Returns the frames of a packet, up to the first that is malformed or not allowed.
pub(super) fn frames(mut rest: &[u8]) -> impl Iterator<Item = Frame<'_>> {
    std::iter::from_fn(move || {
        let (found, behind) = frame(rest)?;
        rest = behind;
        Some(found)
    })
}

fn frame(bytes: &[u8]) -> Option<(Frame<'_>, &[u8])> {
    const PING: u64 = 1;
    const ACK: u64 = 2;
    const ACK_ECN: u64 = 3;
    const CRYPTO: u64 = 6;
    const CLOSE: u64 = 0x1c;
    const CLOSE_APPLICATION: u64 = 0x1d;
    if bytes.first() == Some(&0) {
        let padding = bytes.iter().take_while(|&&byte| byte == 0).count();
        return Some((Frame::Other, &bytes[padding..]));
    }
    let (kind, rest) = varint(bytes)?;
    match kind {
        PING => Some((Frame::Other, rest)),
        ACK => ack(rest),
        ACK_ECN => {
            let (frame, rest) = ack(rest)?;
            let rest = (0..3).try_fold(rest, |rest, _| Some(varint(rest)?.1))?;
            Some((frame, rest))
        }
        CRYPTO => {
            let (offset, rest) = varint(rest)?;
            let (length, rest) = varint(rest)?;
            let (bytes, rest) = rest.split_at_checked(usize::try_from(length).ok()?)?;
            Some((Frame::Crypto { offset, bytes }, rest))
        }
        CLOSE | CLOSE_APPLICATION => {
            let (code, mut rest) = varint(rest)?;
            let is_application = kind == CLOSE_APPLICATION;
            if !is_application {
                rest = varint(rest)?.1;
            }
            let (reason, rest) = varint(rest)?;
            let rest = rest.get(usize::try_from(reason).ok()?..)?;
            Some((Frame::Close(Close { code, is_application }), rest))
        }
        _ => None,
    }
}

fn ack(rest: &[u8]) -> Option<(Frame<'_>, &[u8])> {
    let (largest, rest) = varint(rest)?;
    let (_delay, rest) = varint(rest)?;
    let (count, rest) = varint(rest)?;
    let (first, mut rest) = varint(rest)?;
    let mut smallest = largest.checked_sub(first)?;
    let mut ranges = vec![smallest..=largest];
    for _ in 0..count {
        let (gap, behind) = varint(rest)?;
        let (length, behind) = varint(behind)?;
        let largest = smallest.checked_sub(gap)?.checked_sub(2)?;
        smallest = largest.checked_sub(length)?;
        if ranges.len() < RANGES_MAX {
            ranges.push(smallest..=largest);
        }
        rest = behind;
    }
    Some((Frame::Ack(ranges), rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_frames_of_an_initial_packet_are_read() {
        let ack = [2, 9, 0, 1, 1, 2, 3];
        let ack_ecn = [3, 5, 0, 0, 5, 1, 2, 3];
        let close = [0x1c, 0x41, 0x28, 6, 2, b'n', b'o'];
        let bytes = [&[0, 0, 1][..], &ack, &ack_ecn, &[6, 0x44, 0, 2, 7, 8], &close, &[0]].concat();
        let all: Vec<_> = frames(&bytes).collect();
        assert_eq!(
            all,
            [
                Frame::Other,
                Frame::Other,
                Frame::Ack(vec![8..=9, 1..=4]),
                Frame::Ack(vec![0..=5]),
                Frame::Crypto { offset: 0x400, bytes: &[7, 8] },
                Frame::Close(Close { code: 0x128, is_application: false }),
                Frame::Other,
            ]
        );
    }

    #[test]
    fn ranges_below_zero_and_cut_frames_end_the_packet() {
        assert_eq!(frames(&[2, 9, 0, 1, 9, 0, 0, 1]).count(), 0);
        assert_eq!(frames(&[1, 6, 0, 9, 1, 2]).count(), 1);
        assert_eq!(frames(&[1, 8, 0, 0, 0]).count(), 1, "STREAM is not allowed");
    }
}
