//! HTTP headers that came before. Who polls, checks health or tests under load repeats them to
//! the byte, on many connections, and the same bytes mean the same.

use super::exchanges::RequestFlags;
use super::http_header::Header;
use super::kind::Label;
use super::mark::{Extent, Side, Stated};
use std::ops::Range;

/// Headers kept. They belong to all connections of a shard: memory must not grow with those.
const SLOTS: usize = 128;

/// The longest header kept, bytes.
const HEADER_MAX: usize = 512;

/// What a start line says.
#[derive(Clone, Copy, Default)]
pub(super) struct StartLine {
    /// Of a response.
    pub status: u16,
    /// Of a request, and so its kind.
    pub flags: RequestFlags,
    pub kind: Label,
}

/// A header and what it says.
#[derive(Clone)]
pub(super) struct Known {
    pub from: Side,
    pub bytes: Box<[u8]>,
    pub start: StartLine,
    /// Where its start line ends.
    pub start_end: usize,
    /// The line that says what its sender is.
    pub software: Option<Range<usize>>,
    /// What that line says, if it can be told from a name alone.
    pub stated: Option<Stated>,
    pub header: Header,
    /// It is recognised as HTTP where it comes first on a connection.
    pub tells_protocol: bool,
    /// Of a message that is no special case and says how long it is: where its parts end.
    pub plain: Option<Extent>,
}

/// Headers that came before on any of the connections that share them. What is framed does not
/// depend on them.
#[derive(Clone, Default)]
pub struct KnownHeaders {
    slots: Vec<Option<Box<Known>>>,
    /// By side: where the header is that was kept last.
    last: [Slot; 2],
}

/// Where a header that came last may be found again.
#[derive(Clone, Copy, Default)]
pub(super) struct Slot(u8);

impl KnownHeaders {
    /// Where the header is that `from` sent last, on any of the connections.
    pub(super) fn last(&self, from: Side) -> Slot {
        self.last[from as usize]
    }

    /// Whether `rest` begins with the header that `from` sent last on any of the connections, and that
    /// tells that it is HTTP.
    #[inline]
    pub(super) fn tell_http(&self, from: Side, rest: &[u8]) -> bool {
        self.get(self.last(from), from, rest).is_some_and(|known| known.tells_protocol)
    }

    /// The message that `bytes` are, all of them, if it is plain and begins with the header at `slot`.
    #[inline]
    pub(super) fn whole(&self, slot: Slot, from: Side, bytes: &[u8]) -> Option<(&Known, Extent)> {
        let known = self.get(slot, from, bytes)?;
        let extent = known.plain.filter(|extent| extent.message as usize == bytes.len())?;
        Some((known, extent))
    }

    /// The header at `slot` if `rest` begins with it and `from` sent it.
    #[inline]
    pub(super) fn get(&self, slot: Slot, from: Side, rest: &[u8]) -> Option<&Known> {
        let known = self.slots.get(usize::from(slot.0))?.as_deref()?;
        (known.from == from && rest.starts_with(&known.bytes)).then_some(known)
    }

    /// Takes out the header at `slot` if `rest` begins with it and `from` sent it.
    #[inline]
    pub(super) fn take(&mut self, slot: Slot, from: Side, rest: &[u8]) -> Option<Box<Known>> {
        self.get(slot, from, rest)?;
        self.slots.get_mut(usize::from(slot.0))?.take()
    }

    /// Puts back what was taken.
    #[inline]
    pub(super) fn put(&mut self, slot: Slot, known: Box<Known>) {
        if let Some(place) = self.slots.get_mut(usize::from(slot.0)) {
            *place = Some(known);
        }
    }

    /// Keeps a header, unless it is too long, and says where.
    pub(super) fn keep(&mut self, from: Side, bytes: &[u8], known: impl FnOnce() -> Known) -> Slot {
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
        self.last[from as usize] = slot;
        slot
    }
}

impl Slot {
    /// Any spread will do: who makes headers collide loses only time of his own.
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
