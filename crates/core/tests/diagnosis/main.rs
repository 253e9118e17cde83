//! Whole diagnoses: from captures whose truth is known to reports.
//!
//! `tests/traces` holds traffic written by hand and the tests of each alone; here is what concerns all of
//! them. `simulator` lets two TCP stacks talk over a link, `invariants` states what must hold for every
//! capture.

mod addresses;
mod attempts;
mod claims;
mod diagnosis;
mod drawn;
mod expect;
mod families;
mod fixes;
mod flood;
mod folders;
mod frames;
mod invariants;
mod language;
mod languages;
mod many;
mod memory;
mod names;
mod nested;
mod network;
mod own_lookups;
mod parts;
mod preconditions;
mod predictions;
mod together;
mod traces;
mod translated;
mod vantages;
