//! Judges diagnoses of labelled captures: any tool's, by the rules of `docs/lab-format.md`.
//!
//! ```text
//! labels.json ─► Truth ─┐
//!                       ├─ judge ─► Judged ─► Score ─► text, JSON
//! a tool's output ─► Answer ─┘   (a capture)   (all of them)
//! ```
//!
//! Nothing here knows how an answer came about.

mod answer;
mod calibration;
mod judge;
mod lines;
mod text;
mod truth;

pub use answer::{Answer, AnswerError, Answers, Named, read_answers};
pub use calibration::Bin;
pub use judge::{Counterfactual, Judged, JudgedCause, Kernel, Stated, judge};
pub use lines::{Bar, Line, Lost, Score};
pub use text::{render, render_wrong};
pub use truth::{FromCapture, LabelledCapture, TrueCause, Truth, Verdict, find_truth};

/// Lost time within this share of the truth is right.
pub const LOST_TOLERANCE: f64 = 0.10;

/// The share of the response time that a watch gives to a part of the server's time is right within this
/// share of the truth: it sees a few seconds of a run of its own.
pub const WATCHED_TOLERANCE: f64 = 0.15;

/// Largest median error of the predicted latencies.
pub const COUNTERFACTUAL_ERROR_MAX: f64 = 0.15;

/// Largest width of a predicted interval, as a share of its middle.
pub const INTERVAL_SHARE_MAX: f64 = 0.30;

/// A predicted interval of this width, ns, is narrow enough too: the hosts' noise is as large.
pub const INTERVAL_NS_MAX: u64 = 1_000_000;

/// Two runs of the same exchanges differ by this part of their time, or by [`NOISE_NS`] if that is
/// more: the noise that the tool's own intervals are made of.
pub const NOISE_PART: u64 = 8;

/// The least difference between two runs, ns: half a host's delay.
pub const NOISE_NS: u64 = 500_000;

/// From this share of all time on, a limit that the kernel counted for the sender has to be
/// confirmed.
pub const KERNEL_SHARE: f64 = 0.10;

/// Share of the kernel's time in a limit that has to be found. The kernel counts in ticks of 4 ms,
/// and also while data that has been sent is still in flight.
pub const KERNEL_FOUND: f64 = 0.80;
