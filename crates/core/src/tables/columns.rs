//! The tables, their columns, and the types of these. `docs/parquet.md` describes them to users.

use crate::model::Owner;

/// Number of rows that are kept in memory and written together. With 40 columns of 8 bytes they take
/// 10 MiB.
pub const BATCH_ROWS: usize = 32_768;

/// A table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Table {
    /// A row is a TCP connection.
    Connections,
    /// A row is a request with its response.
    Exchanges,
    /// A row is the silences of one exchange that one cause explains, for one sender.
    Stalls,
    /// A row is a look-up of a name.
    Lookups,
    /// A row is a finding of the report.
    Findings,
}

impl Table {
    /// All tables.
    pub const ALL: [Self; 5] =
        [Self::Connections, Self::Exchanges, Self::Stalls, Self::Lookups, Self::Findings];

    /// Returns the name, which is that of its file too.
    pub fn name(self) -> &'static str {
        match self {
            Self::Connections => "connections",
            Self::Exchanges => "exchanges",
            Self::Stalls => "stalls",
            Self::Lookups => "lookups",
            Self::Findings => "findings",
        }
    }

    /// Returns the columns in order. The cells of a row have the same order.
    pub fn columns(self) -> Vec<(String, Kind)> {
        let columns: Vec<Column> = match self {
            Self::Connections => [&IDENTITY[..], &CONNECTION].concat(),
            Self::Exchanges => [&IDENTITY[..], &EXCHANGE].concat(),
            Self::Stalls => [&IDENTITY[..], &STALL].concat(),
            Self::Lookups => LOOKUP.to_vec(),
            Self::Findings => FINDING.to_vec(),
        };
        let mut columns: Vec<(String, Kind)> =
            columns.into_iter().map(|(name, kind)| (name.to_owned(), kind)).collect();
        if self == Self::Connections {
            for sender in ["client", "server"] {
                columns.extend(
                    DIRECTION.iter().map(|name| (format!("{sender}_{name}"), Kind::Integer)),
                );
            }
        }
        if matches!(self, Self::Connections | Self::Exchanges) {
            let owners = Owner::ALL.iter();
            columns.extend(owners.map(|owner| (format!("{}_ns", owner.id()), Kind::Integer)));
        }
        columns
    }
}

/// The type of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A signed integer of 64 bits.
    Integer,
    /// Nanoseconds since the Unix epoch, in UTC.
    Instant,
    /// UTF-8.
    Text,
    /// A double between 0 and 1.
    Share,
    /// A boolean.
    Flag,
}

/// A value of a row.
#[derive(Clone, Debug, PartialEq)]
pub enum Cell {
    /// A count, bytes or nanoseconds.
    Integer(u64),
    /// Time in nanoseconds since the Unix epoch.
    Instant(u64),
    /// A name, an address, or a word of the vocabulary.
    Text(String),
    /// A share between 0 and 1.
    Share(f64),
    /// Yes or no.
    Flag(bool),
}

/// Name and type of a column.
type Column = (&'static str, Kind);

/// The columns that identify the connection of a row: the number of its file among those read, from
/// 0, and the number of its first frame there.
const IDENTITY: [Column; 2] = [("file", Kind::Integer), ("connection", Kind::Integer)];

const CONNECTION: [Column; 9] = [
    ("client", Kind::Text),
    ("server", Kind::Text),
    ("protocol", Kind::Text),
    ("start", Kind::Instant),
    ("end", Kind::Instant),
    ("vantage", Kind::Text),
    ("rtt_min_ns", Kind::Integer),
    ("exchanges", Kind::Integer),
    ("lost_ns", Kind::Integer),
];

/// The columns of each direction, with the prefix `client_` or `server_` for the sender.
const DIRECTION: [&str; 7] = [
    "packets",
    "actual_data_bytes",
    "unique_bytes",
    "rexmt_data_packets",
    "rto_count",
    "out_of_order_packets",
    "zero_window_advertisements",
];

const EXCHANGE: [Column; 13] = [
    ("exchange", Kind::Integer),
    ("client", Kind::Text),
    ("server", Kind::Text),
    ("protocol", Kind::Text),
    ("kind", Kind::Text),
    ("outcome", Kind::Text),
    ("ended_by", Kind::Text),
    ("error_code", Kind::Text),
    ("start", Kind::Instant),
    ("first_frame", Kind::Integer),
    ("last_frame", Kind::Integer),
    ("connects", Kind::Flag),
    ("wall_ns", Kind::Integer),
];

const STALL: [Column; 10] = [
    ("exchange", Kind::Integer),
    ("cause", Kind::Text),
    ("sender", Kind::Text),
    ("culprit_role", Kind::Text),
    ("culprit_endpoint", Kind::Text),
    ("owned_ns", Kind::Integer),
    ("silences", Kind::Integer),
    ("longest_ns", Kind::Integer),
    ("longest_from_frame", Kind::Integer),
    ("longest_to_frame", Kind::Integer),
];

const LOOKUP: [Column; 16] = [
    ("file", Kind::Integer),
    ("frame", Kind::Integer),
    ("client", Kind::Text),
    ("server", Kind::Text),
    ("qtypes", Kind::Text),
    ("outcome", Kind::Text),
    ("rcode", Kind::Text),
    ("start", Kind::Instant),
    ("wall_ns", Kind::Integer),
    ("queries", Kind::Integer),
    ("answers", Kind::Integer),
    ("answer_min_ns", Kind::Integer),
    ("search_steps", Kind::Integer),
    ("over_tcp", Kind::Flag),
    ("is_reverse", Kind::Flag),
    ("by_resolver", Kind::Flag),
];

const FINDING: [Column; 17] = [
    ("cause", Kind::Text),
    ("class", Kind::Text),
    ("culprit_role", Kind::Text),
    ("culprit_endpoint", Kind::Text),
    ("lost_ns", Kind::Integer),
    ("wall_ns", Kind::Integer),
    ("share", Kind::Share),
    ("confidence", Kind::Share),
    ("exchanges", Kind::Integer),
    ("p50_ns", Kind::Integer),
    ("p99_ns", Kind::Integer),
    ("p50_without_ns", Kind::Integer),
    ("p99_without_ns", Kind::Integer),
    ("p50_without_least_ns", Kind::Integer),
    ("p50_without_most_ns", Kind::Integer),
    ("p99_without_least_ns", Kind::Integer),
    ("p99_without_most_ns", Kind::Integer),
];
