//! Blobs that a stage refuses, with the reason.

use crate::staged::{File, Scattered, Texts, in_one, in_stages, scatter};
use proptest::prelude::*;
use std::path::Path;
use std::slice::from_ref;
use tcpwhy_core::capture::{CaptureSet, Plan, Site, peek};
use tcpwhy_core::join::Sites;
use tcpwhy_core::pipeline::Options;
use tcpwhy_core::stages::internals::sealed;
use tcpwhy_core::stages::{Controlled, Run, StageError, VERSION};

fn capture() -> File {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/captures");
    let bytes = std::fs::read(folder.join("redis_client_nagle.pcap")).expect("a capture");
    File::new("redis.pcap", bytes)
}

/// All blobs of a run with one bucket.
struct Blobs {
    scattered: Scattered,
    control: Controlled,
    partial: Vec<u8>,
}

fn blobs() -> Blobs {
    let scattered = scatter(&[capture()], 1, 0);
    let control = scattered.control();
    let partial = scattered.buckets(&control.told).0.remove(0);
    Blobs { scattered, control, partial }
}

/// A blob and the stage that takes it, with the other blobs as they are.
type Taker = (&'static str, fn(&Blobs) -> Vec<u8>, fn(&Blobs, Vec<u8>) -> Option<StageError>);

const TAKERS: [Taker; 6] = [
    (
        "chunk",
        |it| it.scattered.chunks[0].1.clone(),
        |it, blob| {
            let run = &it.scattered.run;
            run.bucket(0, [blob], &it.control.told, Some(Texts::default())).err()
        },
    ),
    (
        "control chunk",
        |it| it.scattered.control[0].clone(),
        |it, blob| it.scattered.run.control([blob]).err(),
    ),
    (
        "told",
        |it| it.control.told.clone(),
        |it, blob| it.scattered.run.bucket(0, [], &blob, None::<Texts>).err(),
    ),
    ("partial", |it| it.partial.clone(), |it, blob| it.scattered.run.merge(&[blob]).err()),
    (
        "look-ups",
        |it| it.control.lookups.clone(),
        |it, blob| {
            it.scattered.run.settle(from_ref(&it.partial), &blob, &it.scattered.totals).err()
        },
    ),
    (
        "totals",
        |it| it.scattered.totals[0].clone(),
        |it, blob| {
            it.scattered.run.settle(from_ref(&it.partial), &it.control.lookups, &[blob]).err()
        },
    ),
];

#[test]
fn blobs_are_taken_as_they_are() {
    let blobs = blobs();
    for (name, blob, take) in TAKERS {
        assert_eq!(take(&blobs, blob(&blobs)), None, "{name}");
    }
}

#[test]
fn a_blob_of_another_version_is_refused_with_both_versions() {
    let blobs = blobs();
    for (name, blob, take) in TAKERS {
        let mut blob = blob(&blobs);
        let at = blob.windows(VERSION.len()).position(|it| it == VERSION.as_bytes());
        let at = at.expect("the version");
        blob[at] = b'9';
        let error = take(&blobs, blob).expect("refused");
        let theirs = format!("9{}", &VERSION[1..]);
        assert_eq!(error, StageError::Version { theirs: theirs.clone(), ours: VERSION }, "{name}");
        let text = error.to_string();
        assert!(text.contains(&theirs) && text.contains(VERSION), "{text}");
    }
}

#[test]
fn a_blob_with_other_options_is_refused() {
    let (blobs, file) = (blobs(), capture());
    let first_ns = Plan::new(vec![peek(file.source())]).expect("one file").first_ns;
    let same = Options { first_ns, seed: 7, ..Options::default() };
    let others = [
        (Options { show_values: true, ..same.clone() }, 1),
        (Options { seed: 8, ..same.clone() }, 1),
        (Options { first_ns: 1, ..same.clone() }, 1),
        (same.clone(), 2),
    ];
    for (options, buckets) in others {
        let run = Run::new(options, buckets).expect("a run");
        let refused = run.merge(from_ref(&blobs.partial)).expect_err("refused");
        assert_eq!(refused, StageError::Options);
    }
    let run = Run::new(same, 1).expect("a run");
    assert!(run.merge(&[blobs.partial]).is_ok());
}

#[test]
fn a_blob_for_another_stage_or_bucket_is_refused() {
    let blobs = blobs();
    for (to, (name, _, take)) in TAKERS.into_iter().enumerate() {
        for (from, (_, blob, _)) in TAKERS.into_iter().enumerate() {
            if from == to {
                continue;
            }
            let error = take(&blobs, blob(&blobs)).expect(name);
            let is_chunk = from.max(to) < 2;
            let is_right = match error {
                StageError::Stage { .. } => !is_chunk,
                StageError::Bucket { .. } => is_chunk,
                _ => false,
            };
            assert!(is_right, "{name}: {error}");
        }
    }
}

#[test]
fn a_lost_or_repeated_blob_is_named() {
    let file = capture();
    let scattered = scatter(&[file], 4, 0);
    let control = scattered.control();
    let (partials, _) = scattered.buckets(&control.told);
    let Scattered { run, totals, .. } = &scattered;
    let settle = |partials: &[Vec<u8>], totals: &[Vec<u8>]| {
        run.settle(partials, &control.lookups, totals).map(|_| ()).map_err(|it| it.to_string())
    };
    assert_eq!(settle(&partials, totals), Ok(()));
    let refused = |what: Result<(), String>, expected: &str| {
        let error = what.expect_err("refused");
        assert!(error.contains(expected), "{error}");
    };
    // Partials come from the last bucket to the first.
    let bucket = scattered.chunks[0].0;
    let at = 3 - bucket as usize;
    let fewer: Vec<_> = [&partials[..at], &partials[at + 1..]].concat();
    refused(settle(&fewer, totals), &format!("chunks of bucket {bucket}: 0 of 1"));
    let twice: Vec<_> = [&partials[..], &partials[at..=at]].concat();
    refused(settle(&twice, totals), &format!("partials of bucket {bucket}: 2 of 1"));
    refused(settle(&partials, &[]), "chunks of the control");
    let again: Vec<_> = totals.iter().chain(totals).cloned().collect();
    refused(settle(&partials, &again), "totals of file 0: 2 of 1");
    let chunk = scattered.of_bucket(bucket).next().expect("a chunk");
    let repeated = run.bucket(bucket, [chunk.clone(), chunk], &control.told, None::<Texts>);
    assert_eq!(repeated.err(), Some(StageError::Unsorted));
    let mut begun = run.begin_control();
    let chunk = &scattered.control[0];
    assert_eq!(begun.take(chunk.clone()), Ok(()));
    assert_eq!(begun.take(chunk.clone()), Err(StageError::Unsorted));
}

#[test]
fn two_places_and_impossible_numbers_of_buckets_are_refused() {
    let file = capture();
    let second = file.source().at(Site { is_second: true, ahead_ns: 0 });
    let set = CaptureSet::new(vec![file.source(), second]).expect("captures");
    let options = Options { sites: Sites::of(&set), ..Options::default() };
    assert_eq!(Run::new(options, 1).err(), Some(StageError::TwoPlaces));
    for buckets in [0, 4_097] {
        let refused = Run::new(Options::default(), buckets).err();
        assert_eq!(refused, Some(StageError::Buckets { buckets }));
    }
}

#[test]
fn files_that_cannot_be_read_have_their_problem_in_the_report() {
    let file = capture();
    let cut = File::new("cut.pcap", file.bytes[..file.bytes.len() / 2].to_vec());
    let others = [
        File::new("text.pcap", b"not a capture at all, but a text".to_vec()),
        File::new("empty.pcap", Vec::new()),
        File::new("no_frames.pcap", file.bytes[..24].to_vec()),
    ];
    let files: Vec<File> = [file, cut].into_iter().chain(others.clone()).collect();
    assert_eq!(in_stages(&files, 4, 1), in_one(&files));
    // One process has nothing to report on; a run has.
    let none = in_stages(&others[..2], 4, 1).json;
    assert!(none.contains("text.pcap") && none.contains("empty.pcap"), "{none}");
}

/// Two chunks of one file that claim the same frame, as no run writes them: the stage ends.
#[test]
fn chunks_that_claim_the_same_frame_are_read_to_their_end() {
    let run = Run::new(Options::default(), 1).expect("one bucket");
    let told = run.control([]).expect("no chunks").told;
    // Latest time, then bucket, time, file and number of the first frame; flags, time apart and length
    // of a frame without bytes. Both frames have time 64, of which only one chunk's header knows.
    let chunk = |first: u8, apart: u8| {
        let content = [&64_u64.to_le_bytes()[..], &[0, first, 0, 0], &[0, apart, 0]].concat();
        sealed(&run, true, &content)
    };
    let done = run.bucket(0, [chunk(0, 64), chunk(64, 0)], &told, None::<Texts>);
    assert!(done.is_ok(), "{:?}", done.err());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// No changed byte and no cut goes unnoticed, and none causes a panic.
    #[test]
    fn damage_is_refused(
        which in 0..TAKERS.len(),
        at in any::<prop::sample::Index>(),
        change in 1_u8..,
        is_cut: bool,
    ) {
        let blobs = blobs();
        let (name, blob, take) = TAKERS[which];
        let mut blob = blob(&blobs);
        let at = at.index(blob.len());
        if is_cut {
            blob.truncate(at);
        } else {
            blob[at] ^= change;
        }
        prop_assert!(take(&blobs, blob).is_some(), "{}", name);
    }

    #[test]
    fn arbitrary_bytes_are_refused(which in 0..TAKERS.len(), blob: Vec<u8>) {
        let blobs = blobs();
        let (name, _, take) = TAKERS[which];
        prop_assert!(take(&blobs, blob).is_some(), "{}", name);
    }

    /// Frames and what is told are checked even where the digest is right.
    #[test]
    fn hostile_content_causes_no_panic(
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..8),
        which in 0_usize..3,
    ) {
        let blobs = blobs();
        let run = &blobs.scattered.run;
        let header_bytes = sealed(run, true, &[]).len();
        let blob = TAKERS[which].1(&blobs);
        let mut content = blob[header_bytes..].to_vec();
        for (at, byte) in &changes {
            let at = at.index(content.len());
            content[at] = *byte;
        }
        let told = which == 2;
        let blob = sealed(run, !told, &content);
        drop(TAKERS[which].2(&blobs, blob));
    }
}
