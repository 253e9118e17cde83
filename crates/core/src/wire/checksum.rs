//! The Internet checksum (RFC 1071) of TCP and UDP, for the few packets whose drop it may explain.
//!
//! A capture at the sender sees packets before a device with checksum offload completes the
//! checksum. Until then the field holds the sum of the pseudo-header, or zero, and shows nothing.

use super::ip::Network;

/// Returns the one's complement difference between the checksum that `transport` should have and
/// the one that it has, in the two bytes from `field_at`; 0 if that is right, or left to an offload.
/// `transport` is the whole segment or datagram.
pub(super) fn error(network: &Network, transport: &[u8], field_at: usize) -> u16 {
    let Some(&field) = transport.get(field_at..).and_then(|rest| rest.first_chunk::<2>()) else {
        return 0;
    };
    let field = u16::from_be_bytes(field);
    let without_len = pseudo_without_len(network);
    let pseudo = without_len + transport.len() as u64;
    // Segmentation offload leaves out the length.
    let left_to_offload = [pseudo, without_len].map(fold);
    let is_left = field == 0 || left_to_offload.iter().any(|&it| field == it || field == !it);
    if is_left { 0 } else { !fold(pseudo + sum(transport)) }
}

/// Returns whether `transport`, a whole segment or datagram, has the checksum that it should have.
pub(super) fn is_right(network: &Network, transport: &[u8]) -> bool {
    let pseudo = pseudo_without_len(network) + transport.len() as u64;
    fold(pseudo + sum(transport)) == u16::MAX
}

/// Returns the sum of the pseudo-header without the length (RFC 9293 §3.1, RFC 8200 §8.1).
fn pseudo_without_len(network: &Network) -> u64 {
    // The prefix of an IPv4-mapped address adds zero.
    let mut addresses = [0; 32];
    addresses[..16].copy_from_slice(&network.source.to_be_bytes());
    addresses[16..].copy_from_slice(&network.destination.to_be_bytes());
    sum(&addresses) + u64::from(network.protocol)
}

fn sum(bytes: &[u8]) -> u64 {
    let words = bytes.chunks(2).map(|word| match *word {
        [high, low] => u16::from_be_bytes([high, low]).into(),
        [last] => u64::from(last) << 8,
        _ => 0,
    });
    words.sum()
}

fn fold(sum: u64) -> u16 {
    let mut sum = sum;
    while sum > u64::from(u16::MAX) {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::protocol;

    const FIELD_AT: usize = 16;

    fn network() -> Network {
        let ip =
            |last: u8| u128::from(u32::from_be_bytes([10, 0, 0, last])) | super::super::IPV4_MAPPED;
        let (source, destination) = (ip(1), ip(2));
        Network { source, destination, protocol: protocol::TCP, ..Network::default() }
    }

    /// A SYN with the checksum that another implementation computes.
    fn syn() -> Vec<u8> {
        let mut bytes = Vec::new();
        let builder = etherparse::PacketBuilder::ipv4([10, 0, 0, 1], [10, 0, 0, 2], 64);
        let options = [2, 4, 5, 180, 3, 3, 7, 0];
        let syn = builder.tcp(40_000, 80, 1_000, 64_240).syn().options_raw(&options).unwrap();
        syn.write(&mut bytes, &[]).unwrap();
        bytes.split_off(20)
    }

    fn with_field(field: u16) -> Vec<u8> {
        let mut syn = syn();
        syn[FIELD_AT..FIELD_AT + 2].copy_from_slice(&field.to_be_bytes());
        syn
    }

    #[test]
    fn a_checksum_is_right_as_another_implementation_computes_it() {
        assert_eq!(error(&network(), &syn(), FIELD_AT), 0);
    }

    #[test]
    fn a_checksum_that_an_offload_will_compute_is_no_error() {
        let words = |ip: &[u8]| {
            u32::from(u16::from_be_bytes([ip[0], ip[1]]))
                + u32::from(u16::from_be_bytes([ip[2], ip[3]]))
        };
        let addresses = words(&[10, 0, 0, 1]) + words(&[10, 0, 0, 2]);
        let pseudo = (addresses + 6 + syn().len() as u32) as u16;
        for field in [0, pseudo, !pseudo, (addresses + 6) as u16] {
            assert_eq!(error(&network(), &with_field(field), FIELD_AT), 0, "{field:04x}");
        }
    }

    #[test]
    fn a_wrong_checksum_differs_by_what_was_changed() {
        let right = u16::from_be_bytes([syn()[FIELD_AT], syn()[FIELD_AT + 1]]);
        let wrong = error(&network(), &with_field(right ^ 1), FIELD_AT);
        assert!(wrong == 1 || wrong == !1, "{wrong:04x}");
        // Addresses that a program rewrote change the checksums of all packets alike.
        let moved = Network { source: network().source + 5, ..network() };
        let mut other = syn();
        other[7] ^= 0x55;
        let sum_other = error(&network(), &other, FIELD_AT);
        assert_ne!(sum_other, 0);
        assert_eq!(error(&moved, &syn(), FIELD_AT), !5);
    }
}
