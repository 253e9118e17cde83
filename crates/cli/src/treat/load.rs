//! A load that tcpwhy sends itself, to measure a treatment on a system without traffic.

use crate::error::Error;
use std::net::ToSocketAddrs;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;
use tcpwhy_live::netns::Netns;
use tcpwhy_probe::Target;
use tcpwhy_probe::load::{self, LoadOutcome, Plan};

/// A load that runs until it is ended.
pub struct OwnLoad {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<Result<LoadOutcome, Error>>,
}

/// Counts of the load's requests.
#[derive(Clone, Copy, Debug)]
pub struct Sent {
    /// Number of requests that were answered.
    pub answered: u64,
    /// Number of requests and connections that failed, and of responses with an error status.
    pub failed: u64,
}

impl OwnLoad {
    /// Begins to send requests to `target` from `netns` on the given number of connections. Each
    /// connection sends its next request when it has the response. The load ends after `most` at
    /// the latest.
    ///
    /// # Errors The name does not resolve.
    pub fn begin(
        target: &Target,
        connections: u16,
        netns: Netns,
        most: Duration,
    ) -> Result<Self, Error> {
        let addresses = (target.host.as_str(), target.port)
            .to_socket_addrs()
            .map_err(|source| Error::Resolve { host: target.host.clone(), source })?;
        let plan = Plan {
            connections: connections.into(),
            threads: Some(1),
            duration: Some(most),
            ..Plan::new(target.clone(), addresses.collect())
        };
        let stop = Arc::new(AtomicBool::new(false));
        let stops = Arc::clone(&stop);
        let run = move || netns.inside(|| load::run(&plan, &stops, |_| {}))?.map_err(Error::from);
        let thread = thread::spawn(run);
        Ok(Self { stop, thread })
    }

    /// Ends the load.
    ///
    /// # Errors The load could not be sent.
    pub fn end(self) -> Result<Sent, Error> {
        self.stop.store(true, Ordering::Relaxed);
        let ended = self.thread.join();
        let outcome = ended.unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
        Ok(Sent { answered: outcome.requests, failed: outcome.error_count() })
    }
}
