//! Finds captures of an input that show the same packets, so that they were taken at two places.
//!
//! Packets are recognised by fields that routers do not change: sequence and acknowledgment
//! numbers, timestamps, identification. Files that share packets were taken at different places,
//! whatever their names and clocks are; the files of one place, such as a rotated set, share none.
//! Only a sample of the packets is compared. It is chosen by fingerprint, so that it contains the
//! same packets of every file.

mod begin;
mod common;

pub use begin::{Begun, begin};

use crate::capture::{Block, CaptureError, CaptureSet, Site, Source};
use crate::pipeline::{Batch, Decoder, Options};
use crate::survey::common::{COMMON_MIN, Common, Link, SampledPacket, Sketch};
use hashbrown::HashMap;
use std::collections::{BTreeSet, VecDeque};

/// Maximum number of fingerprints kept of all files together.
const SAMPLE_MAX: usize = 1 << 17;

/// Maximum number of files with which one is paired because of one common packet.
const PARTNERS_MAX: usize = 8;

/// Number of bytes read of all files together, and least number for each, unless all have to be
/// read.
const BUDGET_BYTES: u64 = 256 << 20;
const FILE_BYTES_MIN: u64 = 64 << 10;

/// The reason why the captures cannot be joined.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum JoinError {
    /// The same packets were captured at three or more places.
    #[error(
        "{first} and {second}: these and others show the same packets at more than two places; \
         name the captures of two places, or read all as one: --vantages 1"
    )]
    MorePlaces {
        /// One of the files.
        first: String,
        /// Another of the files.
        second: String,
    },
    /// Two places were requested, but there is only one.
    #[error(
        "no packet is in two of these captures: they do not show the same traffic at two places; \
         leave out --vantages 2"
    )]
    OnePlace,
    /// Two places were requested, with address translation between them.
    #[error(
        "the same packets have other addresses in each capture: an address translation (NAT) lies \
         between the two places, and only packets with the same addresses can be joined; capture \
         on the same side of it, or read the captures one by one"
    )]
    Translated,
    /// Two places were requested, and one of the captures can be read only once.
    #[error(
        "{path}: to join two places the captures are read beforehand, and this can be read only once; \
         save it first: tcpdump -w FILE"
    )]
    Once {
        /// The name of the capture.
        path: String,
    },
}

/// The result of a survey.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Survey {
    /// The site of each source, in their order; empty if all are of one place.
    pub sites: Vec<Site>,
    /// Packets were seen again with other addresses.
    pub is_translated: bool,
}

impl Survey {
    /// Returns the survey if there are two places.
    ///
    /// # Errors
    /// [`JoinError::OnePlace`], [`JoinError::Translated`].
    pub fn required(self) -> Result<Self, JoinError> {
        match (self.sites.is_empty(), self.is_translated) {
            (false, _) => Ok(self),
            (true, true) => Err(JoinError::Translated),
            (true, false) => Err(JoinError::OnePlace),
        }
    }

    /// Returns the sources with their sites.
    pub fn assign_sites(&self, sources: Vec<Source>) -> Vec<Source> {
        let sites = self.sites.iter().copied().chain(std::iter::repeat(Site::default()));
        sources.into_iter().zip(sites).map(|(source, site)| source.at(site)).collect()
    }
}

/// Examines `sources`, which can be read again, and determines at which of two places each was
/// taken. Reads them to their ends if `whole` is set, and continues as long as `go_on` returns
/// `true`. Unreadable sources are left to the analysis.
///
/// # Errors
/// [`JoinError::MorePlaces`].
pub fn survey(
    sources: Vec<Source>,
    whole: bool,
    go_on: &dyn Fn() -> bool,
) -> Result<Survey, JoinError> {
    let share_bytes = BUDGET_BYTES / sources.len().max(1) as u64;
    let file_bytes = if whole { u64::MAX } else { share_bytes.max(FILE_BYTES_MIN) };
    let mut sample = Sample::default();
    let (mut block, mut batch) = (Block::default(), Batch::default());
    for (index, source) in sources.into_iter().enumerate() {
        let mut sketch = Sketch { index, name: source.name.clone(), ..Sketch::default() };
        // A file that cannot be read is skipped.
        let room = (&mut block, &mut batch);
        if sample.read(&mut sketch, source, room, file_bytes, go_on).is_ok() {
            sample.sketches.push(sketch);
        }
    }
    // The result does not depend on the order in which files are named.
    sample.sketches.sort_by(|one, other| {
        (one.first_ns, &one.name, one.index).cmp(&(other.first_ns, &other.name, other.index))
    });
    sample.places(whole)
}

#[derive(Default)]
struct Sample {
    sketches: Vec<Sketch>,
    /// Number of low bits that are zero in all fingerprints of the sample.
    bits: u32,
    kept: usize,
}

impl Sample {
    fn read(
        &mut self,
        sketch: &mut Sketch,
        source: Source,
        (block, batch): (&mut Block, &mut Batch),
        file_bytes: u64,
        go_on: &dyn Fn() -> bool,
    ) -> Result<(), CaptureError> {
        let mut capture = CaptureSet::new(vec![source])?;
        sketch.first_ns = capture.first_ns().unwrap_or(u64::MAX);
        let decoder = Decoder::new(&Options::default());
        let mut read_bytes = 0;
        while read_bytes < file_bytes && go_on() && capture.next_block(block)? {
            read_bytes += block.bytes.len() as u64;
            decoder.decode(block, batch);
            for (print, seen) in common::seen(batch) {
                sketch.last_ns = sketch.last_ns.max(seen.time_ns);
                self.take(sketch, print, seen);
            }
        }
        Ok(())
    }

    fn take(&mut self, sketch: &mut Sketch, print: u64, seen: SampledPacket) {
        if print.trailing_zeros() < self.bits {
            return;
        }
        if sketch.seen.contains_key(&print) {
            sketch.repeated.insert(print);
            return;
        }
        sketch.seen.insert(print, seen);
        self.kept += 1;
        while self.kept > SAMPLE_MAX {
            self.bits += 1;
            let bits = self.bits;
            let all = self.sketches.iter_mut().chain([&mut *sketch]);
            self.kept = all.map(|it| it.thin(bits)).sum();
        }
    }

    /// Assigns places to the files so that files with common packets have different places (graph
    /// colouring).
    fn places(&self, is_requested: bool) -> Result<Survey, JoinError> {
        let count = self.sketches.len();
        let mut links: Vec<Vec<(usize, Link)>> = vec![Vec::new(); count];
        let mut is_translated = false;
        for (one, other) in self.related() {
            let [one_sketch, other_sketch] = [one, other].map(|file| &self.sketches[file]);
            let common = Common::of(one_sketch, other_sketch);
            is_translated |= common.translated >= COMMON_MIN && common.packets.is_empty();
            if let Some(link) = common.link(one_sketch, other_sketch, is_requested) {
                links[one].push((other, link));
                links[other].push((one, link.back()));
            }
        }
        let mut placements: Vec<Option<Placement>> = vec![None; count];
        for start in 0..count {
            if placements[start].is_none() && !links[start].is_empty() {
                self.colour(start, &links, &mut placements)?;
            }
        }
        if !placements.iter().flatten().any(|stand| stand.is_second) {
            return Ok(Survey { sites: Vec::new(), is_translated });
        }
        self.follow_names(&mut placements);
        let mut sites =
            vec![Site::default(); self.sketches.iter().map(|it| it.index + 1).max().unwrap_or(0)];
        for (sketch, stand) in self.sketches.iter().zip(placements) {
            if let Some(Placement { is_second: true, ahead_ns }) = stand {
                sites[sketch.index] = Site { is_second: true, ahead_ns };
            }
        }
        Ok(Survey { sites, is_translated: false })
    }

    /// Returns the pairs of files with a common packet, in order. Of many files with the same
    /// packet, each is paired with the next ones only, so that the number of pairs grows with that
    /// of files: any three in a row show that there are more than two places.
    fn related(&self) -> BTreeSet<(usize, usize)> {
        let mut files: HashMap<u64, Vec<usize>> = HashMap::new();
        for (file, sketch) in self.sketches.iter().enumerate() {
            for print in sketch.seen.keys() {
                files.entry(*print).or_default().push(file);
            }
        }
        let mut pairs = BTreeSet::new();
        for files in files.values() {
            for (at, &one) in files.iter().enumerate() {
                pairs.extend(files[at + 1..].iter().take(PARTNERS_MAX).map(|&other| (one, other)));
            }
        }
        pairs
    }

    /// Assigns a place to `start` and to all files that share packets with it, directly or
    /// indirectly. The first place is that nearer the clients.
    fn colour(
        &self,
        start: usize,
        links: &[Vec<(usize, Link)>],
        placements: &mut [Option<Placement>],
    ) -> Result<(), JoinError> {
        let (mut due, mut members, mut votes) = (VecDeque::from([start]), Vec::new(), 0);
        placements[start] = Some(Placement::default());
        while let Some(file) = due.pop_front() {
            members.push(file);
            let Some(Placement { is_second, .. }) = placements[file] else { continue };
            for (other, link) in &links[file] {
                votes += if is_second { -link.nearer } else { link.nearer };
                let theirs = is_second != link.is_apart;
                match placements[*other] {
                    None => {
                        placements[*other] = Some(Placement { is_second: theirs, ahead_ns: 0 });
                        due.push_back(*other);
                    }
                    Some(stand) if stand.is_second == theirs => {}
                    Some(_) => {
                        let name = |file: usize| self.sketches[file].name.clone();
                        return Err(JoinError::MorePlaces {
                            first: name(file),
                            second: name(*other),
                        });
                    }
                }
            }
        }
        for &file in &members {
            let Some(stand) = &mut placements[file] else { continue };
            stand.is_second ^= votes < 0;
            if stand.is_second {
                let apart = links[file].iter().filter(|(_, link)| link.is_apart);
                // The links lead from this file, at the second place, to one at the first.
                let mut ahead: Vec<i64> = apart.map(|(_, link)| -link.later_ns).collect();
                ahead.sort_unstable();
                stand.ahead_ns = ahead.get(ahead.len() / 2).copied().unwrap_or(0);
            }
        }
        Ok(())
    }

    /// Assigns files without common packets to the place of files that have the same name except
    /// for numbers, as in a rotated set.
    fn follow_names(&self, placements: &mut [Option<Placement>]) {
        let placed: Vec<(String, Placement)> = self
            .sketches
            .iter()
            .zip(&*placements)
            .filter_map(|(sketch, stand)| Some((stem(&sketch.name), (*stand)?)))
            .collect();
        for (sketch, stand) in self.sketches.iter().zip(placements) {
            let alike = || placed.iter().find(|(name, _)| *name == stem(&sketch.name));
            *stand = stand.or_else(|| alike().map(|(_, stand)| *stand));
        }
    }
}

/// Returns a name without its digits.
fn stem(name: &str) -> String {
    name.chars().filter(|letter| !letter.is_ascii_digit()).collect()
}

/// Place and clock of a file.
#[derive(Clone, Copy, Debug, Default)]
struct Placement {
    is_second: bool,
    ahead_ns: i64,
}
