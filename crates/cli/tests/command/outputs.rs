//! Outputs: every command that writes files, to every kind of target, with every end of the process.
//!
//! `paths.rs` lists the arguments of all commands that are paths, and a test beside the arguments
//! fails where one is missing there. What is listed as an output fails here until `place.rs` says how
//! it is made.

mod attributes;
mod endings;
mod paths;
mod place;
pub mod private;
mod targets;
