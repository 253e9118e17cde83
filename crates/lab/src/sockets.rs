//! `TCP_INFO` of every TCP socket of a namespace, sampled while the load runs (`sock_diag(7)`):
//! what limited each sender, and its congestion control. It includes the sockets of real programs,
//! which the lab cannot ask for `TCP_INFO`.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use serde::Serialize;
use tcpwhy_live::LiveError;
use tcpwhy_live::diag::{Diag, Entry, TcpState};

use crate::error::LabError;
use crate::netns::Netns;
use crate::sys::TcpInfo;

/// A socket in the last sample that contained it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct SocketSample {
    /// The namespace of the socket: `client` or `server`.
    #[cfg_attr(test, schemars(extend("enum" = ["client", "server"])))]
    pub vantage: &'static str,
    /// Local address and port.
    pub local: String,
    /// Remote address and port.
    pub remote: String,
    /// The congestion control, by the kernel's name.
    pub congestion_control: String,
    /// Number of samples that contained the socket.
    pub samples: u64,
    /// `TCP_INFO` of the socket.
    #[serde(flatten)]
    pub tcp_info: TcpInfo,
}

/// The samples of one namespace.
#[derive(Debug, Clone, Default)]
pub struct Sampled {
    /// The connected sockets, without those over loopback.
    pub sockets: Vec<SocketSample>,
    /// Largest number of half-open connections (`SYN_RECV`) at the same time.
    pub half_open_max: u64,
}

/// Interval of the samples. The state of a socket after its last sample is not known.
const INTERVAL: Duration = Duration::from_millis(40);
/// Maximum number of sockets; more would add no information.
const SOCKETS_MAX: usize = 2_000;

/// Samples a namespace until it is stopped or dropped.
#[derive(Debug)]
pub struct Sampler {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<Sampled>>,
}

impl Sampler {
    /// Starts to sample `netns`, whose sockets are those at `vantage`.
    ///
    /// # Errors The namespace cannot be entered, or the kernel has no `sock_diag`.
    pub fn start(netns: &Netns, vantage: &'static str) -> Result<Sampler, LabError> {
        let mut diag = netns.inside(Diag::open)?.map_err(LabError::Live)?;
        let stop = Arc::new(AtomicBool::new(false));
        let flag = Arc::clone(&stop);
        let thread = thread::spawn(move || {
            let mut seen = SocketSamples::default();
            while !flag.load(Ordering::Relaxed) {
                // A dump that fails is one sample less.
                let _ = seen.sample(&mut diag, vantage);
                thread::sleep(INTERVAL);
            }
            seen.into_sampled()
        });
        Ok(Sampler { stop, thread: Some(thread) })
    }

    /// Stops and returns the samples.
    pub fn stop(&mut self) -> Sampled {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.take().and_then(|t| t.join().ok()).unwrap_or_default()
    }
}

impl Drop for Sampler {
    fn drop(&mut self) {
        self.stop();
    }
}

/// All states except TIME_WAIT, CLOSE and LISTEN.
const STATES: [TcpState; 8] = [
    TcpState::Established,
    TcpState::SynSent,
    TcpState::SynReceived,
    TcpState::FinWait1,
    TcpState::FinWait2,
    TcpState::CloseWait,
    TcpState::LastAck,
    TcpState::Closing,
];

#[derive(Default)]
struct SocketSamples {
    /// Sockets by the kernel's cookie, which is unique.
    sockets: BTreeMap<u64, SocketSample>,
    half_open_max: u64,
}

impl SocketSamples {
    fn sample(&mut self, diag: &mut Diag, vantage: &'static str) -> Result<(), LiveError> {
        let mut half_open = 0;
        diag.dump(&STATES, |entry| {
            if entry.state == TcpState::SynReceived {
                half_open += 1;
            } else if !entry.local.ip().is_loopback() {
                self.note(entry, vantage);
            }
        })?;
        self.half_open_max = self.half_open_max.max(half_open);
        Ok(())
    }

    fn note(&mut self, entry: Entry, vantage: &'static str) {
        let sample = SocketSample {
            vantage,
            local: entry.local.to_string(),
            remote: entry.peer.to_string(),
            congestion_control: entry.congestion_control.unwrap_or_default(),
            samples: 1,
            tcp_info: entry.tcp_info.as_ref().map(TcpInfo::of).unwrap_or_default(),
        };
        let is_full = self.sockets.len() >= SOCKETS_MAX;
        if let Some(known) = self.sockets.get_mut(&entry.cookie) {
            *known = SocketSample { samples: known.samples + 1, ..sample };
        } else if !is_full {
            self.sockets.insert(entry.cookie, sample);
        }
    }

    fn into_sampled(self) -> Sampled {
        let sockets = self.sockets.into_values().collect();
        Sampled { sockets, half_open_max: self.half_open_max }
    }
}
