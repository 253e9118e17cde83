//! What tcpwhy says: one model, shown as text, JSON and flow ladders.

mod model;

pub use model::*;
