//! Finds the causes of slow requests in the load's own packets. Without the right to capture them,
//! it uses the kernel's statistics of the load's sockets.

use super::Explained;
use super::own_sockets::OwnSockets;
use crate::tap::Tap;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;
use tcpwhy_core::keys::GrowingKeys;
use tcpwhy_live::LiveError;

/// Interval at which sockets are read if packets are not captured.
const SOCKETS: Duration = Duration::from_millis(200);

/// An observation of a load in progress.
pub enum Explainer {
    /// The load's packets are captured.
    Packets(Tap),
    /// The load's sockets are read until the flag is set.
    Sockets(Arc<AtomicBool>, JoinHandle<Explained>),
}

impl Explainer {
    /// Begins to observe connections to `addresses` with this packet socket, and opens TLS with the
    /// `secrets` that they hand over. Also returns a note on
    /// what cannot be observed and why.
    pub fn begin(
        socket: Result<OwnedFd, LiveError>,
        addresses: &[SocketAddr],
        secrets: Option<&GrowingKeys>,
    ) -> (Explainer, Option<String>) {
        match socket.and_then(|socket| Tap::of_load(socket, addresses, secrets)) {
            Ok(tap) => (Explainer::Packets(tap), None),
            Err(error) => {
                let done = Arc::new(AtomicBool::new(false));
                let until = done.clone();
                let thread = thread::spawn(move || read_sockets(&until));
                (Explainer::Sockets(done, thread), Some(note(&error)))
            }
        }
    }

    /// Ends the observation after the load and returns the findings.
    pub fn end(self) -> Explained {
        match self {
            Explainer::Packets(tap) => {
                let tapped = tap.finish();
                Explained {
                    report: Some(tapped.report),
                    dropped_packets: tapped.dropped_packets,
                    sockets: None,
                    note: tapped.refused.map(|error| note(&error)),
                    notes: Vec::new(),
                }
            }
            Explainer::Sockets(done, thread) => {
                done.store(true, Ordering::Relaxed);
                thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
            }
        }
    }
}

fn note(error: &LiveError) -> String {
    match error {
        LiveError::NetRaw(_) => "finding the causes of slow requests needs a capture of their \
            packets: run it with sudo, or once: sudo setcap cap_net_raw+ep $(command -v tcpwhy)"
            .to_owned(),
        other => format!("the causes of slow requests cannot be found: {other}"),
    }
}

fn read_sockets(done: &AtomicBool) -> Explained {
    let mut sockets = OwnSockets::default();
    while !done.load(Ordering::Relaxed) {
        thread::sleep(SOCKETS);
        sockets.read();
    }
    Explained { sockets: sockets.sum(), ..Explained::default() }
}
