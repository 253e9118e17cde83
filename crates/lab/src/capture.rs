//! tcpdump at one end of the link.

use std::thread;
use std::time::Duration;

use serde::Serialize;
use tcpwhy_live::folder::Folder;

use crate::error::{Doing, LabError};
use crate::netns::{Netns, Process};

/// Options of a capture.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct CaptureParams {
    /// Number of bytes kept of each packet; 0 keeps all.
    pub snaplen_bytes: u64,
    /// Capture on `any` (link type SLL2) instead of the one interface.
    pub any: bool,
}

/// libpcap hands packets over when its block timeout ends, which is 1 s with tcpdump; younger
/// packets are lost when it is stopped. Immediate mode would avoid the wait, but then each packet
/// takes a whole snap length of the ring, and the ring overflows.
const GRACE: Duration = Duration::from_millis(1_200);

/// A finished capture.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct CaptureReport {
    /// Name of the file, in the directory of the labels.
    pub file: String,
    /// Where it was taken: `client` or `server`.
    #[cfg_attr(test, schemars(extend("enum" = ["client", "server"])))]
    pub vantage: String,
    /// The interface.
    pub interface: String,
    /// Number of packets written.
    pub packets: u64,
    /// Number of packets that the kernel dropped because tcpdump was late; each is missing from the
    /// capture.
    pub dropped: u64,
}

/// A running capture.
#[derive(Debug)]
pub struct Capture {
    tcpdump: Process,
    file: String,
    vantage: String,
    interface: String,
}

impl Capture {
    /// Starts tcpdump, which writes to a new file in `out`, and returns when it listens.
    ///
    /// # Errors tcpdump is not installed or fails.
    pub fn start(
        netns: &Netns,
        vantage: &str,
        interface: &str,
        out: &Folder,
        params: CaptureParams,
    ) -> Result<Capture, LabError> {
        let interface = if params.any { "any" } else { interface };
        let mut command = netns.command("tcpdump");
        command.args(["-n", "--time-stamp-precision=nano", "-B", "65536", "-Z", "root"]);
        command.args(["-i", interface, "-s", &params.snaplen_bytes.to_string()]);
        // tcpdump itself would follow a link that has the name of the file.
        command.args(["-w", "-"]);
        let file = format!("{vantage}.pcap");
        let output = out.create(&file).doing(format!("create {file}"))?;
        let mut tcpdump = Process::start_into(command, "tcpdump", output)?;
        tcpdump.wait_for_stderr("listening on")?;
        let (vantage, interface) = (vantage.to_owned(), interface.to_owned());
        Ok(Capture { tcpdump, file, vantage, interface })
    }

    /// Waits until the last packets are written, stops all tcpdump processes and returns their
    /// reports.
    pub fn stop(all: Vec<Capture>) -> Vec<CaptureReport> {
        if !all.is_empty() {
            thread::sleep(GRACE);
        }
        all.into_iter().map(Capture::finish).collect()
    }

    fn finish(mut self) -> CaptureReport {
        let said = self.tcpdump.stop();
        let count = |what: &str| {
            let line = said.lines().find(|l| l.contains(what));
            line.and_then(|l| l.split_whitespace().next()?.parse().ok()).unwrap_or(0)
        };
        CaptureReport {
            file: self.file,
            packets: count("packets captured"),
            dropped: count("packets dropped by kernel"),
            vantage: self.vantage,
            interface: self.interface,
        }
    }
}
