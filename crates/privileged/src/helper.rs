//! The end of the process that parses: asks, and waits for answers.

use std::io;
use std::os::fd::OwnedFd;
use std::time::Duration;

use serde::Deserialize;
use serde::de::DeserializeOwned;
use tcpwhy_core::state::{Drops, State};
use tcpwhy_host::Entry;
use tcpwhy_live::LiveError;
use tcpwhy_live::privileges;
use tcpwhy_live::sys::process;

use crate::Permitted;
use crate::channel::{Channel, Received, document, part, read};
use crate::protocol::{Answer, Looked, Protocol, Request};
use crate::serve::serve;

/// Error of a request.
#[derive(Debug, thiserror::Error)]
pub enum HelperError {
    /// There can be no second process.
    #[error("the process that keeps the rights of this one cannot be started")]
    Start(#[source] io::Error),
    /// It is gone, or answers otherwise than asked.
    #[error("the process that keeps the rights of this one does not answer")]
    Gone(#[source] io::Error),
    /// It cannot do what it was asked.
    #[error("{0}")]
    Refused(String),
}

/// The other process, which ends when this is dropped.
#[derive(Debug)]
pub struct Helper {
    channel: Channel,
    pid: u32,
}

/// A document of [`Request::Look`].
#[derive(Deserialize)]
struct LookDocument {
    survey: State,
    drops: Vec<Drops>,
    looked: Looked,
}

impl Helper {
    /// Starts a process that has the rights of this one and does what is `permitted`. Comes before
    /// the first thread, and before this process gives up its rights.
    ///
    /// # Errors
    /// The kernel has no room, or this process has threads.
    pub fn start(permitted: Permitted) -> Result<Self, HelperError> {
        let parted = part(|channel| {
            // With more rights than it needs, it would still do no more than what is permitted. The
            // other process, which cannot drop its rights either then, says so.
            let _ = privileges::keep_only(&permitted.capabilities());
            serve(channel, permitted);
        });
        let (channel, pid) = parted.map_err(HelperError::Start)?;
        Ok(Self { channel, pid })
    }

    /// Returns the end of a channel whose other end is in this process.
    #[cfg(test)]
    pub(crate) fn at(channel: Channel) -> Self {
        Self { channel, pid: std::process::id() }
    }

    /// Returns a packet socket that receives nothing yet.
    ///
    /// # Errors
    /// `CAP_NET_RAW` is missing.
    pub fn packet_socket(&self) -> Result<OwnedFd, LiveError> {
        self.socket(&Request::PacketSocket).map_err(LiveError::of_packet_socket)
    }

    /// Returns a raw socket.
    ///
    /// # Errors
    /// `CAP_NET_RAW` is missing.
    pub fn raw_socket(&self, is_ipv4: bool, protocol: Protocol) -> io::Result<OwnedFd> {
        self.socket(&Request::RawSocket { is_ipv4, protocol })
    }

    /// Returns the sockets of the connection between this port and that of the server.
    ///
    /// # Errors
    /// The kernel refuses to list them.
    pub fn connection(&self, local_port: u16) -> Result<State, HelperError> {
        self.document(&Request::Connection { local_port }, None)
    }

    /// Returns all sockets that have the server's port.
    ///
    /// # Errors
    /// The kernel refuses to list them.
    pub fn server(&self) -> Result<State, HelperError> {
        self.document(&Request::Server, None)
    }

    /// Audits a namespace in which [`server`](Self::server) has shown a socket that serves the
    /// port, with a report.
    ///
    /// # Errors
    /// It cannot be read, or was not shown.
    pub fn audit(&self, netns: Option<&str>, report: &[u8]) -> Result<Vec<Entry>, HelperError> {
        let report = document(report).map_err(HelperError::Gone)?;
        self.document(&Request::Audit { netns: netns.map(str::to_owned) }, Some(&report))
    }

    /// Sends a request whose answer is taken later. There is one at a time.
    ///
    /// # Errors
    /// The process is gone.
    pub fn ask(&self, request: &Request) -> Result<(), HelperError> {
        self.channel.send(request, None).map_err(HelperError::Gone)
    }

    /// Returns the answer to [`Request::Ports`]: `Some(None)` if they have not changed; `None` if
    /// there is no answer within `wait`.
    ///
    /// # Errors
    /// The kernel's list of sockets cannot be read.
    #[expect(clippy::type_complexity, reason = "it is said what it means")]
    pub fn ports(&self, wait: Duration) -> Result<Option<Option<Vec<(u16, u16)>>>, HelperError> {
        match self.answer(wait)? {
            None => Ok(None),
            Some(Received { message: Answer::Ports(ports), .. }) => Ok(Some(ports)),
            Some(other) => Err(other_than_asked(other.message)),
        }
    }

    /// Returns the answer to [`Request::Attach`]: the reason why hooks are missing, if some are; `None`
    /// if there is no answer within `wait`.
    ///
    /// # Errors
    /// The process is gone.
    pub fn attached(&self, wait: Duration) -> Result<Option<Option<String>>, HelperError> {
        match self.answer(wait)? {
            None => Ok(None),
            Some(Received { message: Answer::Attached(missing), .. }) => Ok(Some(missing)),
            Some(other) => Err(other_than_asked(other.message)),
        }
    }

    /// Returns the answer to [`Request::Look`]; `None` if there is none within `wait`.
    ///
    /// # Errors
    /// The kernel refuses to list the sockets.
    pub fn looked(&self, wait: Duration) -> Result<Option<(State, Looked)>, HelperError> {
        let Some(received) = self.answer(wait)? else { return Ok(None) };
        let LookDocument { survey, drops, looked } = parsed(received)?;
        Ok(Some((State { drops, ..survey }, looked)))
    }

    /// Returns the CPU time of the process so far.
    pub fn cpu_time(&self) -> Duration {
        process::cpu_time_of(self.pid)
    }

    fn socket(&self, request: &Request) -> io::Result<OwnedFd> {
        let gone = || io::Error::from(io::ErrorKind::BrokenPipe);
        self.channel.send(request, None)?;
        match self.channel.receive()?.ok_or_else(gone)? {
            Received { message: Answer::Socket, descriptor: Some(socket) } => Ok(socket),
            Received { message: Answer::Refused { os_error: Some(error), .. }, .. } => {
                Err(io::Error::from_raw_os_error(error))
            }
            Received { message: Answer::Refused { why, .. }, .. } => Err(io::Error::other(why)),
            _ => Err(io::ErrorKind::InvalidData.into()),
        }
    }

    fn document<T: DeserializeOwned>(
        &self,
        request: &Request,
        beside: Option<&OwnedFd>,
    ) -> Result<T, HelperError> {
        self.channel.send(request, beside).map_err(HelperError::Gone)?;
        parsed(self.received()?)
    }

    /// Returns the next answer, if there is one within `wait`.
    fn answer(&self, wait: Duration) -> Result<Option<Received<Answer>>, HelperError> {
        match self.channel.wait(wait).map_err(HelperError::Gone)? {
            true => self.received().map(Some),
            false => Ok(None),
        }
    }

    fn received(&self) -> Result<Received<Answer>, HelperError> {
        let received = self.channel.receive().map_err(HelperError::Gone)?;
        received.ok_or_else(|| HelperError::Gone(io::ErrorKind::BrokenPipe.into()))
    }
}

impl Drop for Helper {
    fn drop(&mut self) {
        self.channel.end::<Answer>();
    }
}

fn parsed<T: DeserializeOwned>(received: Received<Answer>) -> Result<T, HelperError> {
    match received {
        Received { message: Answer::Document, descriptor: Some(found) } => {
            let bytes = read(found).map_err(HelperError::Gone)?;
            serde_json::from_slice(&bytes).map_err(|error| HelperError::Gone(error.into()))
        }
        other => Err(other_than_asked(other.message)),
    }
}

fn other_than_asked(answer: Answer) -> HelperError {
    match answer {
        Answer::Refused { why, .. } => HelperError::Refused(why),
        _ => HelperError::Gone(io::ErrorKind::InvalidData.into()),
    }
}
