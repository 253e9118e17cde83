//! The messages of a handshake, which records divide anywhere (RFC 8446 §4, §5.1).

/// Bytes of type and length in front of each message.
const HEADER_BYTES: usize = 4;

/// Follows the messages of one direction.
#[derive(Clone, Default)]
pub(super) struct Messages {
    header: [u8; HEADER_BYTES],
    have: u8,
    /// Bytes of the message in progress that are still to come.
    rest: usize,
}

impl Messages {
    /// Processes the next `bytes`; `on` receives the type of each message that ends in them.
    pub fn take(&mut self, mut bytes: &[u8], mut on: impl FnMut(u8)) {
        while !bytes.is_empty() {
            let lacking = HEADER_BYTES - usize::from(self.have);
            if lacking > 0 {
                let (taken, behind) = bytes.split_at(lacking.min(bytes.len()));
                let place = usize::from(self.have);
                self.header[place..place + taken.len()].copy_from_slice(taken);
                self.have += taken.len() as u8;
                bytes = behind;
                if taken.len() < lacking {
                    return;
                }
                let [_, high, mid, low] = self.header;
                self.rest = u32::from_be_bytes([0, high, mid, low]) as usize;
            }
            let taken = self.rest.min(bytes.len());
            bytes = &bytes[taken..];
            self.rest -= taken;
            if self.rest == 0 {
                self.have = 0;
                on(self.header[0]);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_end_where_their_length_says_however_records_divide_them() {
        let all =
            [&[8, 0, 0, 2, 0, 0, 20, 0, 0, 3, 1, 2, 3, 5, 0, 0, 0][..], &[24, 0, 0, 1, 1]].concat();
        for step in 1..=all.len() {
            let (mut messages, mut kinds) = (Messages::default(), Vec::new());
            all.chunks(step).for_each(|bytes| messages.take(bytes, |kind| kinds.push(kind)));
            assert_eq!(kinds, [8, 20, 5, 24], "records of {step} bytes");
        }
    }
}
