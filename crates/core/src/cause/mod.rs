//! From exchanges to findings: who owned the time, and what chain of events made them own it.

mod id;

pub use id::{Cause, Class, Owner, Role};
