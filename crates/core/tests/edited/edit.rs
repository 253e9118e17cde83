//! Captures of `testdata/` as frames, and frames as a capture and its report.

use std::path::{Path, PathBuf};
use tcpwhy_core::capture::{Block, CaptureSet, LinkType, Source};
use tcpwhy_core::model::Report;
use tcpwhy_core::pipeline::{Analysis, Options};

/// One captured frame.
#[derive(Clone)]
pub struct Frame {
    pub time_ns: u64,
    pub link: LinkType,
    /// Length on the wire, bytes.
    pub original_len: usize,
    /// The captured bytes.
    pub bytes: Vec<u8>,
}

impl Frame {
    /// Returns the frame with other bytes, which are `more` longer.
    pub fn with(&self, bytes: Vec<u8>, more: isize) -> Self {
        Self { original_len: self.original_len.saturating_add_signed(more), bytes, ..self.clone() }
    }

    /// Offset of the IP header, if there is one.
    pub fn ip_at(&self) -> Option<usize> {
        let is_ip = |at: usize| matches!(self.bytes.get(at..at + 2), Some([8, 0] | [0x86, 0xdd]));
        match self.link {
            LinkType::ETHERNET if is_ip(12) => Some(14),
            LinkType::ETHERNET if self.bytes[12..14] == [0x81, 0] && is_ip(16) => Some(18),
            LinkType::LINUX_SLL2 if is_ip(0) => Some(20),
            LinkType::RAW => Some(0),
            _ => None,
        }
    }

    /// Offset of the TCP, UDP or tunnelled IP header; no capture here has IP options.
    pub fn transport_at(&self) -> Option<usize> {
        let at = self.ip_at()?;
        let (len, protocol) = if self.bytes[at] >> 4 == 4 { (20, 9) } else { (40, 6) };
        matches!(self.bytes[at + protocol], 4 | 6 | 17 | 41).then_some(at + len)
    }
}

/// A function that edits the frames of a capture.
pub type Edit = fn(&[Frame]) -> Vec<Frame>;

/// All captures, by name.
pub fn captures() -> Vec<(String, Vec<Frame>)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/captures");
    let entries = folder.read_dir().expect("testdata").map(|entry| entry.expect("a file").path());
    let mut paths: Vec<PathBuf> = entries.collect();
    paths.sort();
    let name = |path: &Path| {
        let file = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        file.split('.').next().unwrap_or_default().to_owned()
    };
    paths.iter().map(|path| (name(path), frames(std::fs::read(path).expect("readable")))).collect()
}

fn frames(file: Vec<u8>) -> Vec<Frame> {
    let mut set = CaptureSet::new(vec![Source::memory("capture", file)]).expect("a capture");
    let (mut block, mut frames) = (Block::default(), Vec::new());
    while set.next_block(&mut block).expect("a readable capture") {
        frames.extend(block.frames().map(|frame| Frame {
            time_ns: frame.time_ns,
            link: frame.link,
            original_len: frame.original_len as usize,
            bytes: frame.bytes.to_vec(),
        }));
    }
    frames
}

/// A capture file of frames of one link type.
pub fn pcap(frames: &[Frame]) -> Vec<u8> {
    let link = frames.first().map_or(LinkType::ETHERNET, |frame| frame.link);
    let mut file = Vec::new();
    let mut words = |words: &[u32], bytes: &[u8]| {
        words.iter().for_each(|word| file.extend_from_slice(&word.to_le_bytes()));
        file.extend_from_slice(bytes);
    };
    words(&[0xa1b2_3c4d, 4 << 16 | 2, 0, 0, 262_144, u32::from(link.0)], &[]);
    for frame in frames {
        let (s, ns) = (frame.time_ns / 1_000_000_000, frame.time_ns % 1_000_000_000);
        let lens = [frame.bytes.len() as u32, frame.original_len as u32];
        words(&[s as u32, ns as u32, lens[0], lens[1]], &frame.bytes);
    }
    file
}

/// Returns the report on a capture file.
pub fn report_of(file: Vec<u8>) -> Report {
    let mut set = CaptureSet::new(vec![Source::memory("capture", file)]).expect("a capture");
    let mut analysis = Analysis::new(Options::default());
    analysis.run(&mut set, &mut |_| true).expect("a readable capture");
    analysis.finish(set.inputs())
}

/// Returns the report on frames.
pub fn report(frames: &[Frame]) -> Report {
    report_of(pcap(frames))
}

/// Lists causes, culprits and costs of a report, without frame numbers.
pub fn findings(report: &Report) -> Vec<String> {
    let words = |finding: &tcpwhy_core::model::Finding| {
        format!(
            "{} by {} {} lost {} ns of {} exchanges",
            finding.cause.id(),
            finding.culprit.role.id(),
            finding.culprit.endpoint,
            finding.lost_ns,
            finding.affected.exchanges,
        )
    };
    report.findings.iter().map(words).collect()
}

/// The report without frame numbers and minor observations.
pub fn story(report: &Report) -> String {
    let totals = &report.totals;
    format!(
        "{} connections, {} exchanges, {} look-ups, {} ns: {:?} {:?}",
        totals.connections,
        totals.exchanges,
        totals.lookups,
        totals.wall_ns,
        report.ledger,
        findings(report)
    )
}
