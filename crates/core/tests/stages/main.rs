//! A run in stages gives the report and the rows of one process.

mod refused;
mod same;
mod staged;
