//! Problems of capture files, in one sentence each: what, where, what to do.

use super::input::ZSTD_WINDOW_MAX;
use crate::literal::Literal;
use std::{fmt, io};

/// A problem of one input that the report mentions. Offsets are bytes from the start of the
/// capture, after decompression; frame numbers are 1-based, as in Wireshark.
#[derive(Clone, Debug, PartialEq, Eq, serde::Deserialize, serde::Serialize)]
#[non_exhaustive]
pub enum Problem {
    /// It could not be opened.
    Open {
        /// The system's error message.
        reason: String,
    },
    /// It was not opened, because too many captures cover the time at which it begins.
    Overlapping {
        /// Number of captures that were open.
        captures: u64,
    },
    /// It has no bytes.
    Empty,
    /// It is not a capture.
    Foreign {
        /// A description of the content, and the remedy.
        #[serde(with = "crate::literal")]
        looks_like: Literal,
    },
    /// It has an unsupported format version.
    Version {
        /// `pcap`, `pcapng` or `snoop`.
        #[serde(with = "crate::literal")]
        format: Literal,
        /// Major version.
        major: u16,
        /// Minor version.
        minor: u16,
    },
    /// It is compressed with a larger window than supported.
    ZstdWindow,
    /// A capture without a frame in it.
    NoFrames,
    /// It ends in the middle of a record.
    Cut {
        /// Start of the incomplete record.
        offset: u64,
    },
    /// Reading failed: the device, or damaged compression.
    Read {
        /// End of the part that was read.
        offset: u64,
        /// The error message of the system or the decompressor.
        reason: String,
    },
    /// A record is invalid; the rest of the file was not read.
    Damaged {
        /// Start of the record.
        offset: u64,
        /// The fault of the record.
        #[serde(with = "crate::literal")]
        what: Literal,
        /// The stated length, bytes.
        length: u64,
    },
    /// Blocks of a pcapng file that contradict themselves were skipped.
    BadBlocks {
        /// Number of blocks.
        blocks: u64,
        /// Start of the first.
        offset: u64,
    },
    /// Frames of an interface that the file does not describe were skipped.
    UnknownInterface {
        /// Number of frames.
        frames: u64,
        /// Number of the first frame.
        first_frame: u64,
    },
    /// The clock went backward.
    ClockStep {
        /// Number of backward steps.
        steps: u64,
        /// The largest step, ns.
        largest_ns: u64,
        /// The frame after the largest step.
        frame: u64,
    },
    /// All times are whole multiples of a long step apart.
    CoarseClock {
        /// The step, ns.
        step_ns: u64,
    },
    /// Frames without a time (Simple Packet Blocks) were given that of the preceding frame.
    Untimed {
        /// Number of frames.
        frames: u64,
        /// Number of the first frame.
        first_frame: u64,
    },
    /// Times outside of the supported range were replaced by the nearest supported time.
    TimeRange {
        /// Number of frames.
        frames: u64,
        /// Number of the first frame.
        first_frame: u64,
    },
    /// Several captures were concatenated into one file, which other tools misread.
    Concatenated {
        /// Number of captures after the first.
        captures: u64,
        /// Start of the second.
        offset: u64,
    },
    /// The capture was appended to itself: frames with the bytes and times of earlier ones were left out.
    Repeated {
        /// Number of frames.
        frames: u64,
        /// Number of the first frame.
        first_frame: u64,
    },
    /// The capturing host reports that it lost frames (pcapng Interface Statistics).
    CaptureDrops {
        /// Number of frames.
        frames: u64,
    },
}

impl Problem {
    /// Returns the problem if reading ended at `offset` with `error`.
    pub(super) fn of_read(offset: u64, error: &io::Error) -> Self {
        let reason = error.to_string();
        // The library does not report this in any other way.
        if reason.contains("requires too much memory") {
            return Self::ZstdWindow;
        }
        Self::Read { offset, reason }
    }

    /// Returns a stable name for programs.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Open { .. } => "open",
            Self::Overlapping { .. } => "overlapping",
            Self::Empty => "empty",
            Self::Foreign { .. } => "foreign",
            Self::Version { .. } => "version",
            Self::ZstdWindow => "zstd_window",
            Self::NoFrames => "no_frames",
            Self::Cut { .. } => "cut",
            Self::Read { .. } => "read",
            Self::Damaged { .. } => "damaged",
            Self::BadBlocks { .. } => "bad_blocks",
            Self::UnknownInterface { .. } => "unknown_interface",
            Self::ClockStep { .. } => "clock_step",
            Self::CoarseClock { .. } => "coarse_clock",
            Self::Untimed { .. } => "untimed",
            Self::TimeRange { .. } => "time_range",
            Self::Concatenated { .. } => "concatenated",
            Self::Repeated { .. } => "repeated",
            Self::CaptureDrops { .. } => "capture_drops",
        }
    }

    /// Returns the place in the capture, bytes from its start, for problems that have one.
    pub fn offset(&self) -> Option<u64> {
        match self {
            Self::Cut { offset }
            | Self::Read { offset, .. }
            | Self::Damaged { offset, .. }
            | Self::BadBlocks { offset, .. }
            | Self::Concatenated { offset, .. } => Some(*offset),
            _ => None,
        }
    }

    /// Returns whether frames are missing because of it.
    pub fn loses_frames(&self) -> bool {
        !matches!(
            self,
            Self::NoFrames
                | Self::ClockStep { .. }
                | Self::CoarseClock { .. }
                | Self::Untimed { .. }
                | Self::TimeRange { .. }
                | Self::Concatenated { .. }
                | Self::Repeated { .. }
        )
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Open { reason } => write!(f, "cannot be opened: {reason}"),
            Self::Overlapping { captures } => write!(
                f,
                "was not read, because {captures} other captures cover the time at which it \
                 begins: join some with mergecap"
            ),
            Self::Empty => write!(
                f,
                "is empty: the capture was not started, or its first packets were not yet \
                 written (tcpdump -U writes each at once)"
            ),
            Self::Foreign { looks_like } => {
                write!(
                    f,
                    "is not a packet capture (pcap, pcapng or snoop): it looks like {looks_like}"
                )
            }
            Self::Version { format, major, minor } => write!(
                f,
                "says it is {format} version {major}.{minor}, which is not \
                 known: rewrite it with editcap, or capture again"
            ),
            Self::ZstdWindow => write!(
                f,
                "is compressed with a zstd window of more than {} MiB, which is not kept in memory: \
                 unpack it first (zstd -dc --long=31 FILE | tcpwhy -)",
                ZSTD_WINDOW_MAX >> 20
            ),
            Self::NoFrames => write!(f, "holds no packets: was the filter or interface right?"),
            Self::Cut { offset } => write!(
                f,
                "ends within the record at byte {offset}: everything before it was read; end \
                 a capture with an interrupt, not a kill"
            ),
            Self::Read { offset, reason } => write!(
                f,
                "cannot be read beyond byte {offset} ({reason}): everything before it was read"
            ),
            Self::Damaged { offset, what, length } => write!(
                f,
                "is damaged at byte {offset}: {what} ({length} bytes); everything before it \
                 was read, nothing after it: copy or capture it again"
            ),
            Self::BadBlocks { blocks, offset } => write!(
                f,
                "has {blocks} blocks that contradict themselves, the first at byte {offset}: \
                 they were left out"
            ),
            Self::UnknownInterface { frames, first_frame } => write!(
                f,
                "has {frames} frames, from #{first_frame} on, of an interface it does not \
                 describe: they were left out"
            ),
            Self::ClockStep { steps, largest_ns, frame } => write!(
                f,
                "has a clock that went backward {}, by up to {} (frame #{frame}): the time that \
                 passed across a step is unknown and was not counted; file order was kept",
                if *steps == 1 { "once".into() } else { format!("{steps} times") },
                Seconds(*largest_ns)
            ),
            Self::CoarseClock { step_ns } => write!(
                f,
                "has a clock that counts in steps of {}: what takes less shows as 0 or as one step, so \
                 short times and small differences say nothing",
                Seconds(*step_ns)
            ),
            Self::Untimed { frames, first_frame } => write!(
                f,
                "has {frames} frames without a time, from #{first_frame} on: each took the time \
                 of the frame before it; capture with tcpdump or dumpcap"
            ),
            Self::TimeRange { frames, first_frame } => write!(
                f,
                "has {frames} frames with impossible times, from #{first_frame} on: each took the \
                 time of the frame before it"
            ),
            Self::Concatenated { captures, offset } => write!(
                f,
                "has {captures} more captures appended, the first at byte {offset}: all were \
                 read, but Wireshark numbers frames differently or stops there; join with \
                 mergecap, not cat"
            ),
            Self::Repeated { frames: 1, first_frame } => write!(
                f,
                "holds a frame of its beginning again: #{first_frame} has the bytes and the time of an \
                 earlier one, and was left out"
            ),
            Self::Repeated { frames, first_frame } => write!(
                f,
                "holds frames of its beginning again: {frames}, from #{first_frame} on, have the bytes and \
                 the times of earlier ones, and were left out"
            ),
            Self::CaptureDrops { frames } => write!(
                f,
                "misses {frames} packets that the capturing host dropped: capture with a larger \
                 buffer (tcpdump -B) or a shorter snap length (-s 128)"
            ),
        }
    }
}

/// Displays a duration with about three significant digits.
struct Seconds(u64);

impl fmt::Display for Seconds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ns = self.0 as f64;
        match self.0 {
            0..1_000 => write!(f, "{} ns", self.0),
            1_000..1_000_000 => write!(f, "{:.1} us", ns / 1e3),
            1_000_000..1_000_000_000 => write!(f, "{:.1} ms", ns / 1e6),
            _ => write!(f, "{:.1} s", ns / 1e9),
        }
    }
}

/// The reason why nothing of the input can be read.
#[derive(Debug, thiserror::Error)]
pub enum CaptureError {
    /// No source was given.
    #[error("no capture was given: name a pcap or pcapng file, or - for standard input")]
    NoInput,
    /// More files than frame identifiers can express.
    #[error(
        "{files} files are too many: at most 16,777,216 can be read at once; join some with mergecap"
    )]
    TooManyFiles {
        /// Number of files.
        files: usize,
    },
    /// The only file cannot be read.
    #[error("{name} {problem}")]
    Unreadable {
        /// The file.
        name: String,
        /// The problem.
        problem: Problem,
    },
    /// None of the files can be read.
    #[error("none of {files} files can be read; the first: {name} {problem}")]
    NoneReadable {
        /// Number of files.
        files: usize,
        /// The first by name.
        name: String,
        /// The problem of that file.
        problem: Problem,
    },
}
