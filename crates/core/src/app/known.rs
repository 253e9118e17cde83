//! HTTP headers that were parsed before. Clients that poll, check health or test under load repeat
//! them byte for byte on many connections, and identical bytes have identical meaning.

use super::exchanges::RequestFlags;
use super::http_header::Header;
use super::kind::Label;
use super::mark::{Extent, Stated};
use crate::keys::Keyring;
use crate::wire::{BySide, Side};
use memchr::memmem::Finder;
use std::ops::Range;
use std::sync::LazyLock;

/// Maximum number of headers kept. They are shared by all connections of a shard, so memory does
/// not grow with connections.
const SLOTS: usize = 128;

/// Maximum length of a header that is kept, bytes.
const HEADER_MAX: usize = 512;

/// The values of a start line.
#[derive(Clone, Copy, Default)]
pub(super) struct StartLine {
    /// Status code of a response.
    pub status: u16,
    /// A request is one of HTTP/1.0.
    pub is_http10: bool,
    /// Flags and kind of a request.
    pub flags: RequestFlags,
    pub kind: Label,
}

/// A header and its meaning.
#[derive(Clone)]
pub(super) struct KnownHeader {
    pub from: Side,
    pub bytes: Box<[u8]>,
    pub start: StartLine,
    /// End of the start line.
    pub start_end: usize,
    /// The line that states the sender's software.
    pub software: Option<Range<usize>>,
    /// The software stated in that line, if it is text.
    pub stated: Option<Stated>,
    pub header: Header,
    /// `true` if the header identifies HTTP in the first message of a connection.
    pub identifies_http: bool,
    /// The ends of the message's parts, if it is no special case and states its length.
    pub plain: Option<Extent>,
}

/// Headers that were parsed before on any of the connections that share them, which never change the
/// result of the framing; and the secrets that open TLS.
#[derive(Clone, Default)]
pub struct KnownHeaders {
    /// Secrets of TLS connections, if there are any.
    pub keys: Option<Keyring>,
    slots: Vec<Option<Box<KnownHeader>>>,
    /// For each side, the slot of the header kept last.
    last: BySide<Slot>,
}

/// A slot in which a header may be found again.
#[derive(Clone, Copy, Default)]
pub(super) struct Slot(u8);

impl KnownHeaders {
    /// Returns the slot of the header that `from` sent last on any of the connections.
    pub(super) fn last(&self, from: Side) -> Slot {
        self.last[from]
    }

    /// Returns the slot of a header with which `rest` of `from` begins, if that header was parsed
    /// before and identifies HTTP.
    #[inline]
    pub(super) fn identifies_http(&self, from: Side, rest: &[u8]) -> Option<Slot> {
        let slot = self.find(self.last(from), from, rest);
        self.get(slot, from, rest).filter(|known| known.identifies_http).map(|_| slot)
    }

    /// Returns the slot in which the header with which `rest` begins is, if it is kept: `likely`, or
    /// that of its bytes.
    #[inline]
    pub(super) fn find(&self, likely: Slot, from: Side, rest: &[u8]) -> Slot {
        match self.get(likely, from, rest) {
            Some(_) => likely,
            None => header_of(rest).map_or(likely, Slot::of),
        }
    }

    /// Returns the header at `slot` if `bytes` are one complete simple message that begins with it.
    #[inline]
    pub(super) fn whole(
        &self,
        slot: Slot,
        from: Side,
        bytes: &[u8],
    ) -> Option<(&KnownHeader, Extent)> {
        let known = self.get(slot, from, bytes)?;
        let extent = known.plain.filter(|extent| extent.message as usize == bytes.len())?;
        Some((known, extent))
    }

    /// Returns the header at `slot` if `rest` begins with it and `from` sent it.
    #[inline]
    pub(super) fn get(&self, slot: Slot, from: Side, rest: &[u8]) -> Option<&KnownHeader> {
        let known = self.slots.get(usize::from(slot.0))?.as_deref()?;
        (known.from == from && rest.starts_with(&known.bytes)).then_some(known)
    }

    /// Removes and returns the header at `slot` if `rest` begins with it and `from` sent it.
    #[inline]
    pub(super) fn take(&mut self, slot: Slot, from: Side, rest: &[u8]) -> Option<Box<KnownHeader>> {
        self.get(slot, from, rest)?;
        self.slots.get_mut(usize::from(slot.0))?.take()
    }

    /// Puts back a header that was taken.
    #[inline]
    pub(super) fn put(&mut self, slot: Slot, known: Box<KnownHeader>) {
        if let Some(place) = self.slots.get_mut(usize::from(slot.0)) {
            *place = Some(known);
        }
    }

    /// Keeps a header, unless it is too long; returns its slot.
    pub(super) fn keep(
        &mut self,
        from: Side,
        bytes: &[u8],
        known: impl FnOnce() -> KnownHeader,
    ) -> Slot {
        let slot = Slot::of(bytes);
        if bytes.len() > HEADER_MAX {
            return slot;
        }
        if self.slots.is_empty() {
            self.slots.resize_with(SLOTS, || None);
        }
        let place = self.slots.get_mut(usize::from(slot.0));
        if let Some(place) = place
            && place.as_ref().is_none_or(|other| *other.bytes != *bytes)
        {
            *place = Some(Box::new(known()));
        }
        self.last[from] = slot;
        slot
    }
}

/// Returns the header with which `bytes` begin, if it is short enough to be kept.
#[inline(never)]
fn header_of(bytes: &[u8]) -> Option<&[u8]> {
    const END: &[u8] = b"\r\n\r\n";
    // To prepare a search takes longer than to search a header.
    static FINDER: LazyLock<Finder> = LazyLock::new(|| Finder::new(END));
    let begin = bytes.get(..HEADER_MAX).unwrap_or(bytes);
    let end = FINDER.find(begin)? + END.len();
    bytes.get(..end)
}

impl Slot {
    /// Returns the slot by a simple hash, which need not resist attacks: headers that collide only
    /// cost time.
    fn of(bytes: &[u8]) -> Self {
        let (words, rest) = bytes.as_chunks::<8>();
        let words = words.iter().map(|word| u64::from_le_bytes(*word));
        let rest = rest.iter().map(|&byte| u64::from(byte));
        let mix = |hash: u64, word: u64| {
            (hash.rotate_left(23) ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15)
        };
        let hash = words.chain(rest).fold(bytes.len() as u64, mix);
        Self((hash >> 56) as u8 % SLOTS as u8)
    }
}
