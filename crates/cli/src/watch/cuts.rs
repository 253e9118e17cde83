//! Copies the packets around each new finding from the ring into their own file, with a page.

use super::files::{Files, frames};
use super::lines::Saved;
use crate::page;
use std::collections::HashSet;
use std::io;
use tcpwhy_core::capture::{Encoder, Frame, LinkType};
use tcpwhy_core::model::{Cause, Finding, Language, Report, Role};
use tcpwhy_core::report::Phrases;
use tcpwhy_core::wire::{Endpoint, FlowHasher, FlowKey, Packet, Segment, decode};

/// Time before and after the evidence that is copied, ns.
const AROUND_NS: u64 = 1_000_000_000;
/// Number of frames before the evidence that are read; if a second has more, it is not complete.
const BEFORE_FRAMES: u64 = 200_000;
/// Bytes of the ring that are read for one finding.
const READ_BYTES_MAX: u64 = 128 << 20;
/// Maximum number of files: a watch that runs for weeks must not fill the disk.
const FILES_MAX: usize = 64;

/// The files written so far.
#[derive(Default)]
pub struct Cuts {
    known: HashSet<(Cause, Role, Endpoint)>,
    saved: Vec<Saved>,
}

impl Cuts {
    /// Returns the files, oldest first.
    pub fn saved(&self) -> &[Saved] {
        &self.saved
    }

    /// Writes files for the findings of `report` that are new. Returns messages about failures.
    pub fn take(&mut self, report: &Report, files: &Files, interface: &str) -> Option<String> {
        let mut failed = None;
        for finding in &report.findings {
            let key = (finding.cause, finding.culprit.role, finding.culprit.endpoint);
            let numbers = finding.evidence.iter().map(|it| it.frame.number());
            let (Some(first), Some(last)) = (numbers.clone().min(), numbers.max()) else {
                continue;
            };
            if self.saved.len() >= FILES_MAX || !self.known.insert(key) {
                continue;
            }
            match cut_out(finding, (first, last), files, interface) {
                Ok(Some([file, page])) => self.saved.push(Saved {
                    cause: finding.cause.id(),
                    role: finding.culprit.role.id(),
                    endpoint: finding.culprit.endpoint.to_string(),
                    file,
                    page,
                    first_frame: first,
                    last_frame: last,
                }),
                Ok(None) => {}
                Err(error) => {
                    let cause = finding.cause.id();
                    failed = Some(format!("the packets of {cause} cannot be kept ({error})"));
                }
            }
        }
        failed
    }
}

/// Writes the packets and their page, and returns the names of both; `None` if the ring no longer
/// has the evidence.
fn cut_out(
    finding: &Finding,
    (first, last): (u64, u64),
    files: &Files,
    interface: &str,
) -> io::Result<Option<[String; 2]>> {
    let (begin_ns, end_ns) = match evidence_times(files, first, last)? {
        Some((first_ns, last_ns)) => (first_ns.saturating_sub(AROUND_NS), last_ns + AROUND_NS),
        None => return Ok(None),
    };
    let mut encoder = Encoder::default();
    let (cause, endpoint) = (finding.cause.id(), finding.culprit.endpoint);
    let about = format!("{cause} at {} {endpoint}", finding.culprit.role.id());
    encoder.header(LinkType::LINUX_SLL2, interface, &format!("tcpwhy watch: {about}"));
    let comments = Phrases::of(finding, Language::English).evidence;
    let mut chosen = Chosen::new(finding);
    let again = |bytes: &[u8], number| {
        for frame in frames(bytes, number) {
            if frame.time_ns > end_ns {
                return false;
            }
            if frame.time_ns < begin_ns {
                continue;
            }
            let number = frame.id.number();
            let place = finding.evidence.iter().position(|it| it.frame.number() == number);
            if place.is_some() || chosen.has(&frame) {
                let part = place.and_then(|place| comments.get(place));
                let comment = part.map(|part| format!("tcpwhy: frame {number}: {part}"));
                encoder.frame(&frame, comment.as_slice());
            }
        }
        true
    };
    let begin = first.saturating_sub(BEFORE_FRAMES);
    files.read_again(begin, READ_BYTES_MAX, again)?;
    let name = format!("finding-{first:012}-{cause}");
    let (packets, page) = (format!("{name}.pcapng"), format!("{name}.html"));
    let folder = files.folder();
    folder.write(&packets, &encoder.bytes)?;
    let drawn = page::of_capture(&packets, &encoder.bytes).map_err(io::Error::other)?;
    folder.write(&page, drawn.as_bytes())?;
    Ok(Some([packets, page].map(|name| folder.path().join(name).display().to_string())))
}

/// Returns the times of the first and the last frame of the evidence, if the ring still has both.
fn evidence_times(files: &Files, first: u64, last: u64) -> io::Result<Option<(u64, u64)>> {
    let (mut first_ns, mut last_ns) = (None, None);
    files.read_again(first, READ_BYTES_MAX, |bytes, number| {
        for frame in frames(bytes, number) {
            let number = frame.id.number();
            first_ns = first_ns.or((number == first).then_some(frame.time_ns));
            last_ns = last_ns.or((number == last).then_some(frame.time_ns));
        }
        last_ns.is_none()
    })?;
    Ok(first_ns.zip(last_ns))
}

/// The frames that belong to a finding: those of its connection, and look-ups of the same client.
struct Chosen {
    flow: Option<FlowKey>,
    client: Option<[u8; 16]>,
    hasher: FlowHasher,
    segment: Segment,
}

impl Chosen {
    fn new(finding: &Finding) -> Self {
        let ends = finding.evidence_flow;
        Self {
            flow: ends.map(|(client, server)| FlowKey::new(client, server).0),
            client: ends.map(|(client, _)| client.address),
            hasher: FlowHasher::new(0),
            segment: Segment::default(),
        }
    }

    fn has(&mut self, frame: &Frame<'_>) -> bool {
        match decode(frame, &self.hasher, &mut self.segment) {
            Packet::Tcp => Some(self.segment.flow) == self.flow,
            Packet::Udp(it) | Packet::Quic(it) => {
                [it.source, it.destination].iter().any(|end| Some(end.address) == self.client)
            }
            Packet::IcmpError(error) => Some(error.flow) == self.flow,
            Packet::Fragment(_) => true,
            Packet::MayBeQuic(_) | Packet::Other(_) | Packet::Malformed(_) => false,
        }
    }
}
