//! Traces lie where a reader looks for them.

use crate::expect::named;
use crate::traces::{Case, cases, files, folder};
use std::collections::BTreeSet;
use std::fs;
use tcpwhy_core::model::Cause;

/// Folders of traces that concern no cause.
const SUBJECTS: [&str; 3] = ["healthy", "input", "protocols"];

#[test]
fn traces_lie_in_folders_of_causes_or_subjects_under_names_of_their_own() {
    for pair in cases().windows(2) {
        assert_ne!(pair[0].name, pair[1].name, "{} and {}", pair[0].folder, pair[1].folder);
    }
    for Case { folder, name, .. } in cases() {
        let is_known = Cause::from_id(&folder).is_some() || SUBJECTS.contains(&&*folder);
        assert!(is_known, "{folder}/{name}: the folder is no cause and no subject");
    }
    let loose = fs::read_dir(folder()).expect("a folder").map(|it| it.expect("an entry").path());
    let loose: Vec<_> =
        loose.filter(|it| it.is_file() && it.extension() != Some("rs".as_ref())).collect();
    assert!(loose.is_empty(), "files in no folder: {loose:?}");
}

#[test]
fn the_folder_of_a_cause_has_a_trace_that_names_it() {
    let all = cases();
    let folders: BTreeSet<&str> = all.iter().map(|case| &*case.folder).collect();
    for cause in folders.into_iter().filter_map(Cause::from_id) {
        let of_it = all.iter().filter(|case| case.folder == cause.id());
        let is_named =
            of_it.flat_map(|case| named(&case.trace().expectations)).any(|it| it == cause);
        assert!(is_named, "no trace of {} names this cause", cause.id());
    }
}

#[test]
fn every_snapshot_has_its_trace() {
    let traces: Vec<_> = cases().into_iter().map(|it| (it.folder, it.name)).collect();
    let snapshots = files("snap").into_iter().map(|it| (it.folder, it.name));
    let left: Vec<_> = snapshots.filter(|it| !traces.contains(it)).collect();
    assert!(left.is_empty(), "snapshots without a trace: {left:?}");
}
