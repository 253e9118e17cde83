//! Byte order of a file, and integers in it.

/// The byte order of a capture: that of the capturing host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ByteOrder {
    Little,
    Big,
}

impl ByteOrder {
    /// Returns the 16-bit integer at `at`, if it lies within `bytes`.
    #[inline]
    pub(super) fn u16(self, bytes: &[u8], at: usize) -> Option<u16> {
        let field = *bytes.get(at..)?.first_chunk()?;
        Some(match self {
            Self::Little => u16::from_le_bytes(field),
            Self::Big => u16::from_be_bytes(field),
        })
    }

    /// Returns the 32-bit integer at `at`, if it lies within `bytes`.
    #[inline]
    pub(super) fn u32(self, bytes: &[u8], at: usize) -> Option<u32> {
        let field = *bytes.get(at..)?.first_chunk()?;
        Some(match self {
            Self::Little => u32::from_le_bytes(field),
            Self::Big => u32::from_be_bytes(field),
        })
    }

    /// Returns the 32-bit integer at `at`, which must lie within `bytes`.
    #[inline(always)]
    pub(super) fn word<const LEN: usize>(self, bytes: &[u8; LEN], at: usize) -> u32 {
        let field = [bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]];
        match self {
            Self::Little => u32::from_le_bytes(field),
            Self::Big => u32::from_be_bytes(field),
        }
    }

    /// Returns the 64-bit integer at `at`, if it lies within `bytes`.
    pub(super) fn u64(self, bytes: &[u8], at: usize) -> Option<u64> {
        let field = *bytes.get(at..)?.first_chunk()?;
        Some(match self {
            Self::Little => u64::from_le_bytes(field),
            Self::Big => u64::from_be_bytes(field),
        })
    }

    /// Returns a 64-bit time stored as two 32-bit halves, high half first (pcapng §4.3).
    #[inline]
    pub(super) fn halves(self, bytes: &[u8], at: usize) -> Option<u64> {
        let (high, low) = (self.u32(bytes, at)?, self.u32(bytes, at + 4)?);
        Some(u64::from(high) << 32 | u64::from(low))
    }

    /// Returns the stored form of a 16-bit integer.
    pub(super) fn half_bytes(self, value: u16) -> [u8; 2] {
        match self {
            Self::Little => value.to_le_bytes(),
            Self::Big => value.to_be_bytes(),
        }
    }

    /// Returns the stored form of a 32-bit integer.
    pub(super) fn word_bytes(self, value: u32) -> [u8; 4] {
        match self {
            Self::Little => value.to_le_bytes(),
            Self::Big => value.to_be_bytes(),
        }
    }
}
