//! A load that tcpwhy sends itself, to measure a treatment on a system without traffic.

use crate::error::Error;
use crate::sandbox;
use serde::{Deserialize, Serialize};
use std::net::ToSocketAddrs;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;
use tcpwhy_live::netns::Netns;
use tcpwhy_probe::Target;
use tcpwhy_probe::load::{self, LoadOutcome, Plan};

/// A load that runs until it is ended.
pub struct OwnLoad {
    stop: Arc<AtomicBool>,
    plans: Sender<Plan>,
    thread: JoinHandle<Result<LoadOutcome, Error>>,
}

/// Counts of the load's requests.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Sent {
    /// Number of requests that were answered.
    pub answered: u64,
    /// Number of requests and connections that failed, and of responses with an error status.
    pub failed: u64,
}

impl OwnLoad {
    /// Starts a thread that enters `netns` with the rights of the calling one, gives them up, and
    /// waits for a load to send.
    pub fn prepare(netns: Netns) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let stops = Arc::clone(&stop);
        let (plans, planned) = channel();
        let thread = thread::spawn(move || {
            netns.enter()?;
            sandbox::confine_measuring(None);
            match planned.recv() {
                Ok(plan) => load::run(&plan, &stops, |_| {}).map_err(Error::from),
                Err(_) => Ok(LoadOutcome::default()),
            }
        });
        Self { stop, plans, thread }
    }

    /// Begins to send requests to `target` on the given number of connections. Each connection
    /// sends its next request when it has the response. The load ends after `most` at the latest.
    ///
    /// # Errors The name does not resolve.
    pub fn begin(&self, target: &Target, connections: u16, most: Duration) -> Result<(), Error> {
        let addresses = (target.host.as_str(), target.port)
            .to_socket_addrs()
            .map_err(|source| Error::Resolve { host: target.host.clone(), source })?;
        let plan = Plan {
            connections: connections.into(),
            threads: Some(1),
            duration: Some(most),
            ..Plan::new(target.clone(), addresses.collect())
        };
        // A thread that has ended could not enter the namespace, which its end says.
        let _ = self.plans.send(plan);
        Ok(())
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
