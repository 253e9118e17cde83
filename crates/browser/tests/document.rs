//! Documents of stored captures, without a browser.

use std::fs::File;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::Mutex;
use tcpwhy_browser::{Asked, PageError, Pass, Reading, document};
use tcpwhy_core::capture::Progress;

/// Files on disk, and the progress that was reported.
#[derive(Clone, Default)]
struct Disk {
    paths: Vec<PathBuf>,
    passes: Arc<Mutex<Vec<(Pass, u64)>>>,
}

impl Reading for Disk {
    type File = File;

    fn open(&self, index: usize) -> File {
        File::open(&self.paths[index]).expect("a stored capture")
    }

    fn progress(&self, pass: Pass, progress: Progress) {
        self.passes.lock().expect("no panic").push((pass, progress.consumed_bytes));
    }
}

fn stored(names: &[&str]) -> (Asked, Disk) {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../testdata/captures");
    let paths: Vec<PathBuf> = names.iter().map(|name| folder.join(name)).collect();
    let sizes = paths.iter().map(|path| path.metadata().expect("a stored capture").len());
    let files = names.iter().map(|name| (*name).to_owned()).zip(sizes).collect();
    (Asked { files, ..Asked::default() }, Disk { paths, ..Disk::default() })
}

#[test]
fn a_document_has_the_report_and_its_picture_whatever_the_seed() {
    let (mut asked, disk) = stored(&["nginx_nodelay_off.pcap"]);
    let json = document(&asked, &disk).expect("a report");
    let value: serde_json::Value = serde_json::from_str(&json).expect("JSON");
    let run = &value["runs"][0];
    assert_eq!(run["report"]["findings"][0]["cause"], "nagle_delayed_ack");
    assert!(!run["picture"]["drawings"].as_array().expect("a list").is_empty());
    asked.seed = 7;
    assert_eq!(document(&asked, &disk).expect("a report"), json);
}

#[test]
fn both_passes_report_progress_up_to_the_end_of_the_files() {
    let (asked, disk) = stored(&["both_ends-client.pcap", "both_ends-server.pcap"]);
    document(&asked, &disk).expect("a report");
    let total: u64 = asked.files.iter().map(|(_, bytes)| bytes).sum();
    let passes = disk.passes.lock().expect("no panic");
    for pass in [Pass::First, Pass::Second] {
        let consumed: Vec<u64> = passes.iter().filter(|it| it.0 == pass).map(|it| it.1).collect();
        assert!(consumed.is_sorted());
        assert_eq!(consumed.last(), Some(&total), "{pass:?}");
    }
}

#[test]
fn wrong_options_and_empty_results_are_errors() {
    let error = |change: &dyn Fn(&mut Asked)| {
        let (mut asked, disk) = stored(&["nginx_nodelay_off.pcap"]);
        change(&mut asked);
        document(&asked, &disk).expect_err("an error")
    };
    assert!(matches!(error(&|it| it.filter = "hots 1".into()), PageError::Filter(_)));
    assert!(matches!(error(&|it| it.min_share = "101".into()), PageError::Share));
    assert!(matches!(error(&|it| it.vantages = Some(2)), PageError::Join(_)));
    let filtered = error(&|it| it.filter = "port 1".into());
    assert!(filtered.to_string().starts_with("nothing to judge: --filter"), "{filtered}");
}
