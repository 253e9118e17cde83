//! A server on this machine: what the kernel says of its sockets.

use super::steps::Steps;
use std::net::SocketAddr;
use std::time::Instant;
use tcpwhy_core::report::Report;
use tcpwhy_core::state::{self, State};
use tcpwhy_live::sockets::{Selection, Where};
use tcpwhy_probe::experiment::{Connection, Settings, Subject};

/// Puts the state of the server's sockets beside the findings, where the other end of a connection
/// of our own is on this machine.
pub fn weigh(report: &mut Report, subject: &Subject, steps: &mut Steps) {
    let began = Instant::now();
    // A connection that is open while the sockets are read.
    let Ok(connection) = Connection::open(subject, Settings::default()) else { return };
    let Some(own) = connection.local() else { return };
    let at = |port| {
        // Other namespaces may be looked into by root only.
        let read = |place| {
            crate::sockets::state(&Selection { place, port: Some(port), ..Selection::default() })
        };
        read(Where::All).or_else(|_| read(Where::Here))
    };
    let there = match at(own.port()) {
        Ok(there) => there,
        Err(error) => return steps.skipped("sockets", error.to_string()),
    };
    if !has(&there, subject.server, own) {
        return steps.skipped("sockets", "the server is on another machine, or may not be seen");
    }
    match at(subject.server.port()) {
        Ok(all) => {
            state::weigh(report, &all);
            let count = all.sockets.len();
            steps.done("sockets", began, format!("the server is on this machine: {count} sockets"));
        }
        Err(error) => steps.skipped("sockets", error.to_string()),
    }
}

/// Whether a socket has these ends.
fn has(state: &State, local: SocketAddr, peer: SocketAddr) -> bool {
    let same = |one: SocketAddr, other: SocketAddr| {
        (one.ip().to_canonical(), one.port()) == (other.ip().to_canonical(), other.port())
    };
    let is_it = |it: &tcpwhy_core::state::Socket| {
        same(it.local, local) && it.peer.is_some_and(|at| same(at, peer))
    };
    state.sockets.iter().any(is_it)
}
