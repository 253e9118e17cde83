//! Development of a sender's flight from round to round.

/// Shape of a sender's last rounds in which it waited for ACKs although the offered window had
/// room.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Shape {
    /// Too few rounds to decide, or the flight still grows.
    #[default]
    Opening,
    /// The flight has reached the same height in several rounds.
    Ceiling {
        /// Size of the flight, bytes.
        bytes: u64,
        /// The sender had nothing more buffered each time, so that no congestion window held it
        /// back.
        drained: bool,
    },
}
