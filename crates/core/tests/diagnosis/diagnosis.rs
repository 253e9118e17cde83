//! Runs a diagnosis in memory.

use tcpwhy_core::capture::{Block, CaptureSet, Source};
use tcpwhy_core::check::{Packets, check};
use tcpwhy_core::join::Sites;
use tcpwhy_core::model::{Report, Verdict};
use tcpwhy_core::pipeline::{Analysis, Options};
use tcpwhy_core::survey::survey;

/// The report on one capture file.
pub fn diagnose(file: &[u8]) -> Report {
    diagnose_files(&[("capture", file)])
}

/// The report on several files of one place.
pub fn diagnose_files(files: &[(&str, &[u8])]) -> Report {
    analyse(sources(files), Options::default())
}

/// The report on several files, of one place or two, as they show.
pub fn joined(files: &[(&str, &[u8])]) -> Report {
    let survey = survey(sources(files), false, &|| true).expect("two places at most");
    let options = Options { is_translated: survey.is_translated, ..Options::default() };
    analyse(survey.assign_sites(sources(files)), options)
}

/// Returns whether several files are recognised as those of two vantages.
pub fn sited(files: &[(&str, &[u8])]) -> bool {
    !survey(sources(files), false, &|| true).expect("two places at most").sites.is_empty()
}

fn sources(files: &[(&str, &[u8])]) -> Vec<Source> {
    files.iter().map(|(name, bytes)| Source::memory(*name, bytes.to_vec())).collect()
}

fn analyse(sources: Vec<Source>, options: Options) -> Report {
    let mut capture = CaptureSet::new(sources).expect("a readable capture");
    let mut analysis = Analysis::new(Options { sites: Sites::of(&capture), ..options });
    analysis.run(&mut capture, &mut |_| true).expect("a readable capture");
    analysis.finish(capture.inputs())
}

/// Milliseconds, three decimals.
pub fn ms(ns: u64) -> String {
    format!("{:.3}", ns as f64 / 1e6)
}

/// The packets that the claims of `report` on `file` are checked against.
pub fn packets_of(report: &Report, file: &[u8]) -> Packets {
    let mut capture = CaptureSet::new(sources(&[("capture", file)])).expect("a readable capture");
    let (mut packets, mut block) = (Packets::of(report), Block::default());
    while capture.next_block(&mut block).expect("a readable capture") {
        packets.take(&block);
    }
    packets
}

/// Returns the claims of `report` on `file` that the packets contradict.
pub fn false_claims(report: &Report, file: &[u8]) -> Vec<String> {
    let mut packets = packets_of(report, file);
    let wrong = check(report, &mut packets).into_iter().filter_map(|it| match it.verdict {
        Verdict::False(why) => {
            let cause = it.finding.map_or("report", |at| report.findings[at].cause.id());
            Some(format!("{cause}: {}: {why}", it.claim))
        }
        _ => None,
    });
    wrong.collect()
}
