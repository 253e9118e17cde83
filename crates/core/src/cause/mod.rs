//! From exchanges to findings: who owned the time, and what chain of events made them own it.

mod id;
mod words;

pub use id::{Cause, Class, Owner, Role};
pub use words::{FixRow, ObservationWords, Words, manual, observation, observations, words};
