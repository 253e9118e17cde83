//! Real captures, edited: the same traffic as another capture point, tool or link would have
//! shown it. What was wrong, and what was not, must not depend on that.

mod begun;
mod clock;
mod edit;
mod fragments;
mod limits;
mod same;
mod wrapped;
