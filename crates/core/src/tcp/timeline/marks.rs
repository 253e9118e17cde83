//! The marks in the content of a segment. They are kept until the silence before the segment is
//! judged, because its content shows whether an exchange waited for it.

use crate::app::{Label, Mark};
use crate::tcp::setup::Setup;
use crate::tcp::timeline::{At, OverlappingMessage, Timeline};
use crate::wire::Side;

/// The marks of one segment, in order.
#[derive(Clone, Debug, Default)]
pub struct Marks(Vec<Placed>);

/// A mark with what has to be known of its place.
#[derive(Clone, Debug)]
struct Placed {
    /// Position in the stream of its sender.
    position: u64,
    /// See [`At::open_ended`].
    open_ended: bool,
    /// See [`At::has_events`].
    has_events: bool,
    mark: Kept,
}

/// A mark without the bytes that it was read from.
#[derive(Clone, Debug)]
enum Kept {
    Kind(Label),
    /// A whole request of this kind.
    Request(Label),
    /// A mark that refers to no bytes.
    Plain(Mark<'static>),
}

impl Kept {
    /// Returns what is kept of `mark`; `None` if it concerns no exchange.
    fn of(mark: Mark<'_>) -> Option<Self> {
        Some(match mark {
            Mark::Kind(kind) => Self::Kind(*kind),
            Mark::Request { kind, .. } => Self::Request(*kind),
            Mark::Software(_) => return None,
            Mark::Response { status, extent, .. } => {
                Self::Plain(Mark::Response { status, extent, software: None })
            }
            Mark::RequestStart => Self::Plain(Mark::RequestStart),
            Mark::NotDue => Self::Plain(Mark::NotDue),
            Mark::LastResponse => Self::Plain(Mark::LastResponse),
            Mark::RequestHeaderEnd { expects_continue } => {
                Self::Plain(Mark::RequestHeaderEnd { expects_continue })
            }
            Mark::RequestEnd => Self::Plain(Mark::RequestEnd),
            Mark::ResponseStart => Self::Plain(Mark::ResponseStart),
            Mark::Interim { status } => Self::Plain(Mark::Interim { status }),
            Mark::ResponseHeaderEnd { status } => Self::Plain(Mark::ResponseHeaderEnd { status }),
            Mark::Error(code) => Self::Plain(Mark::Error(code)),
            Mark::RetryAfter { seconds } => Self::Plain(Mark::RetryAfter { seconds }),
            Mark::ResponseEnd => Self::Plain(Mark::ResponseEnd),
            Mark::HandshakeStart => Self::Plain(Mark::HandshakeStart),
            Mark::HelloAgain => Self::Plain(Mark::HelloAgain),
            Mark::HandshakeEnd { resumed, certificate_bytes, is_tls13 } => {
                Self::Plain(Mark::HandshakeEnd { resumed, certificate_bytes, is_tls13 })
            }
            Mark::Desync => Self::Plain(Mark::Desync),
            Mark::Proceeds => Self::Plain(Mark::Proceeds),
            Mark::Overtaken => Self::Plain(Mark::Overtaken),
        })
    }
}

impl Marks {
    /// Returns whether there is no mark.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Removes all marks.
    #[inline]
    pub fn clear(&mut self) {
        self.0.clear();
    }

    /// Adds `mark` at `position` of the stream of its sender; `open_ended` and `has_events` are as
    /// in [`At`].
    pub fn add(&mut self, mark: Mark<'_>, position: u64, (open_ended, has_events): (bool, bool)) {
        if let Some(mark) = Kept::of(mark) {
            self.0.push(Placed { position, open_ended, has_events, mark });
        }
    }

    /// Returns whether a request or a TLS handshake begins in the segment.
    fn have_request(&self) -> bool {
        self.0.iter().any(|it| {
            matches!(
                it.mark,
                Kept::Request(_) | Kept::Plain(Mark::RequestStart | Mark::HandshakeStart)
            )
        })
    }
}

impl Timeline {
    /// Returns whether an exchange begins with `marks`: a request that does not continue an earlier
    /// one (`overlap`) and does not complete a TLS handshake, unless the client `rests` between both.
    pub fn begins_exchange(&self, marks: &Marks, overlap: OverlappingMessage, rests: bool) -> bool {
        marks.have_request()
            && overlap != OverlappingMessage::RequestContinues
            && (rests || !self.exchanges.is_ready())
    }

    /// Processes `marks` of a segment of `side`; `at` is their context but for their places.
    pub fn apply(&mut self, marks: &Marks, side: Side, mut at: At, setup: &mut Setup) {
        for Placed { position, open_ended, has_events, mark } in &marks.0 {
            (at.open_ended, at.has_events) = (*open_ended, *has_events);
            (at.position, at.positions[side]) = (*position, *position);
            match mark {
                Kept::Kind(kind) => self.mark(Mark::Kind(kind), &at, setup),
                Kept::Plain(mark) => self.mark(*mark, &at, setup),
                Kept::Request(kind) => {
                    for mark in [Mark::RequestStart, Mark::Kind(kind), Mark::RequestEnd] {
                        self.mark(mark, &at, setup);
                    }
                }
            }
        }
    }
}
