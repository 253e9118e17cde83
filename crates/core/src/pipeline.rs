//! All steps from blocks of frames to a report, divided so that a caller can run them on any number
//! of threads, with the same result.
//!
//! A block passes three steps: [`Decoder::decode`] (in any order, on any thread), [`Control::take`]
//! in order (it does little work and reassembles fragments), then [`Shard::take`] for each shard,
//! in order. A connection always belongs to the same shard. [`Analysis::run`] takes these steps on
//! the calling thread, [`Pass`] on as many threads as call it.

mod addresses;
mod batch;
mod found;
mod fragments;
mod names;
mod observed;
mod overview;
mod pass;
mod quic;
mod settled;
mod sliding;
mod translated;
mod twin;

pub use batch::Batch;
pub(crate) use found::Found;
pub(crate) use fragments::FragmentJoiner;
pub use sliding::{Interval, Sliding};

use addresses::Addresses;
pub(crate) use addresses::is_arp;
use batch::Aside;
pub(crate) use batch::Event;
use names::Names;
pub(crate) use observed::Observed;
pub(crate) use overview::Overview;
pub use pass::{BLOCK_BYTES_THREADED, GoOn, Pass};
use quic::Connections;
use settled::Settled;
pub(crate) use translated::Translated;
use twin::Twin;

use crate::capture::{Block, CaptureError, CaptureSet, FrameEntry, FrameId, InputSummary};
use crate::dns::{self, Lookup, Transport};
use crate::filter::Filter;
use crate::findings::{self, Floors, Tally, Worst};
use crate::join::{Accounts, Datagrams, Joint, Sites};
use crate::keys::{Keyring, Keys};
use crate::model::{Report, Window};
use crate::quic::Carried;
use crate::tcp::{Sink, Tracker};
use crate::wire::quic::SHORT_MIN_BYTES;
use crate::wire::{Datagram, FlowHasher, FlowKey, Packet, decode, protocol};
use std::collections::HashSet;

/// Number of shards, independent of the number of threads, which therefore does not affect the
/// result.
pub const SHARDS: usize = 16;

/// Options of an analysis.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Thresholds above which findings are reported.
    pub floors: Floors,
    /// Kinds of requests contain literal values (complete paths); otherwise values never leave the
    /// analysis.
    pub show_values: bool,
    /// Seed of the flow hash; the result does not depend on it.
    pub seed: u64,
    /// The part of the capture to analyse.
    pub filter: Filter,
    /// Changes that passes over all connections make are logged.
    pub log_settling: bool,
    /// All connections and endpoints are reported, not only the worst.
    pub all: bool,
    /// Capture time of the first frame, to which the filter's times are relative, ns.
    pub first_ns: u64,
    /// The places at which the captures were taken, if there are two.
    pub sites: Sites,
    /// The captures show the same packets with other addresses.
    pub is_translated: bool,
    /// Secrets that open TLS connections; none of them is in the report.
    pub keys: Option<Keyring>,
    /// Disables the fast paths. The analysis takes longer and gives the same result; tests compare
    /// the two.
    pub disable_fast_path: bool,
}

impl Options {
    /// Returns the time window of the report.
    pub fn window(&self) -> Window {
        self.filter.window(self.first_ns)
    }

    /// Opens TLS with the secrets of `keys` as well.
    pub fn add_keys(&mut self, keys: &Keys) {
        if !keys.is_empty() {
            self.keys.get_or_insert_default().merge(keys);
        }
    }

    /// Removes from `report` what was not requested.
    pub(crate) fn narrow(&self, report: &mut Report) {
        if !self.all {
            let omitted = report.endpoints.len().saturating_sub(ENDPOINTS_MAX);
            report.endpoints_omitted = omitted as u64;
            report.endpoints.truncate(ENDPOINTS_MAX);
        }
        report.only = self.filter.causes().to_vec();
        report.findings.retain(|finding| self.filter.matches_cause(finding.cause));
    }
}

/// Decodes blocks.
#[derive(Clone)]
pub struct Decoder {
    hasher: FlowHasher,
    filter: Filter,
    sites: Sites,
}

impl Decoder {
    /// Creates a decoder for the part that `options` select.
    pub fn new(options: &Options) -> Self {
        Self {
            hasher: FlowHasher::new(options.seed),
            filter: options.filter.clone(),
            sites: options.sites.clone(),
        }
    }

    /// Decodes all frames of `block` into `batch`, which is cleared first.
    pub fn decode(&self, block: &Block, batch: &mut Batch) {
        batch.clear();
        batch.make_room(block.entries.len());
        batch.first_ns = block.entries.first().map(|entry| entry.time_ns);
        let mut last_ns = 0;
        for entry in &block.entries {
            last_ns = entry.time_ns.max(last_ns);
            self.decode_frame(block, entry, batch);
        }
        batch.last_ns = last_ns;
        batch.counts.tcp += u64::from(batch.index());
    }

    /// Decodes the frame of `entry` into `batch`.
    #[inline]
    fn decode_frame(&self, block: &Block, entry: &FrameEntry, batch: &mut Batch) {
        let Some(frame) = block.frame(entry) else { return };
        let segment = batch.slot();
        match decode(&frame, &self.hasher, segment) {
            Packet::Tcp if self.wants(&segment.flow) => {
                segment.rebase(entry.offset);
                segment.note_clock(entry.clock_set);
                let (hash, of_names) = (segment.flow_hash, dns::concerns(segment));
                let is_sample = translated::is_sample(segment);
                if of_names {
                    batch.asides.push(Aside::Segment(batch.index()));
                }
                if is_sample {
                    batch.samples.push(batch.index());
                }
                batch.take_slot(hash);
            }
            other => {
                batch.counts.add(&other, entry.id);
                if let Packet::Fragment(_) = other {
                    batch.asides.push(Aside::Fragment(*entry));
                }
                self.keep(&other, batch);
            }
        }
    }

    fn wants(&self, flow: &FlowKey) -> bool {
        self.filter.matches_flow(flow)
    }

    fn datagram(&self, it: &Datagram<'_>, carrier: Transport) -> Option<Aside> {
        let (flow, _) = FlowKey::new(it.source, it.destination);
        self.wants(&flow).then(|| Aside::Datagram {
            time_ns: it.time_ns,
            frame: it.frame,
            source: it.source,
            destination: it.destination,
            payload: it.payload.into(),
            payload_bytes: match carrier {
                Transport::Datagram => it.payload_len,
                // The header of a first fragment contains the length of the whole datagram.
                _ => u32::try_from(it.payload.len()).unwrap_or(u32::MAX),
            },
            carrier,
            ttl: it.ttl,
        })
    }

    /// Returns a datagram of QUIC with up to `bytes` of its payload.
    fn quic(&self, it: &Datagram<'_>, bytes: usize) -> Option<Aside> {
        let (flow, _) = FlowKey::new(it.source, it.destination);
        self.wants(&flow).then(|| {
            Aside::Quic(Carried {
                time_ns: it.time_ns,
                frame: it.frame,
                source: it.source,
                destination: it.destination,
                payload: it.payload[..it.payload.len().min(bytes)].into(),
                payload_bytes: it.payload_len,
            })
        })
    }

    /// Keeps packets other than segments in `batch`.
    fn keep(&self, packet: &Packet<'_>, batch: &mut Batch) {
        match packet {
            Packet::Udp(it) => batch.asides.extend(self.datagram(it, Transport::Datagram)),
            Packet::Quic(it) => batch.asides.extend(self.quic(it, usize::MAX)),
            // Behind its first byte only its connection ID is read.
            Packet::MayBeQuic(it) => batch.asides.extend(self.quic(it, SHORT_MIN_BYTES)),
            Packet::IcmpError(error) if !self.wants(&error.flow) => {}
            Packet::IcmpError(error) if error.protocol == protocol::TCP => batch.take_error(*error),
            Packet::IcmpError(error) => batch.asides.push(Aside::Error(*error)),
            Packet::Tcp | Packet::Fragment(_) | Packet::Other(_) | Packet::Malformed(_) => {}
        }
    }
}

/// The connections of one shard.
#[derive(Default)]
pub struct Shard {
    tracker: Tracker,
    tally: Tally,
    /// The second place, if there are two.
    twin: Option<Box<Twin>>,
}

impl Shard {
    pub(crate) fn new(options: &Options) -> Self {
        let mut shard = Self::default();
        let window = options.window();
        if options.sites.are_two() {
            shard.twin = Some(Box::new(Twin::new(options.sites.clone())));
        }
        let twin = shard.twin.as_deref_mut();
        let (tracker, accounts) = twin.map(|twin| (&mut twin.tracker, &mut twin.accounts)).unzip();
        let trackers = SHARDS * if options.sites.are_two() { 2 } else { 1 };
        for tracker in [&mut shard.tracker].into_iter().chain(tracker) {
            tracker.share_early_bytes(trackers);
            tracker.shows_values = options.show_values;
            tracker.open_tls_with(options.keys.clone());
            tracker.disable_fast_path(options.disable_fast_path);
            tracker.limit_to(window);
        }
        let accounts = accounts.into_iter().flat_map(Accounts::tallies_mut);
        for tally in [&mut shard.tally].into_iter().chain(accounts) {
            *tally = Self::tally(options);
        }
        shard
    }

    /// Returns an empty tally.
    fn tally(options: &Options) -> Tally {
        let mut tally = Tally::default();
        if options.all {
            tally.worst = Worst::new(usize::MAX);
        }
        tally
    }

    /// Processes the segments of shard `index` of a block.
    pub fn take(&mut self, index: usize, batch: &Batch, block: &Block) {
        if self.twin.is_some() {
            return self.take_both(index, batch, block);
        }
        for event in batch.events(index) {
            let payload = event.payload(batch, block);
            follow(&mut self.tracker, &event, payload, &mut self.tally);
        }
    }

    /// Processes one event, with the payload of a segment. There is one place.
    pub(crate) fn take_event(&mut self, event: &Event<'_>, payload: &[u8]) {
        follow(&mut self.tracker, event, payload, &mut self.tally);
    }

    /// Ends all connections, and adds the results to `found`. Returns those of the second place.
    pub(crate) fn finish_into(mut self, found: &mut Found) -> Option<Box<Twin>> {
        self.finish();
        found.take_counts(&mut self.tracker);
        found.tally.merge(self.tally);
        self.twin
    }
}

/// Passes an event of one connection to its tracker, with the payload of a segment.
#[inline(always)]
pub(crate) fn follow(
    tracker: &mut Tracker,
    event: &Event<'_>,
    payload: &[u8],
    sink: &mut impl Sink,
) {
    match event {
        Event::Segment(segment) => tracker.segment(segment, payload, sink),
        Event::Error(error) => tracker.icmp_error(error),
        Event::Copy(flow, hash) => tracker.exclude(flow, *hash),
    }
}

/// The state that concerns more than one connection.
#[derive(Clone)]
pub struct Control {
    sites: Sites,
    /// Name look-ups by place.
    names: [Names; 2],
    quic: Connections,
    settled: Settled,
    datagrams: Datagrams,
    /// `None` if captures of several places are known to have other addresses.
    translated: Option<Translated>,
    joiner: FragmentJoiner,
    addresses: Addresses,
    overview: Overview,
}

/// Maximum number of endpoints reported, most wall time first, unless all are requested.
const ENDPOINTS_MAX: usize = 64;

impl Control {
    pub(crate) fn new(decoder: Decoder, options: &Options) -> Self {
        let (is_translated, window) = (options.is_translated, options.window());
        let is_one = !decoder.sites.are_two() && !is_translated;
        Self {
            translated: is_one.then(Translated::default),
            sites: decoder.sites.clone(),
            names: Default::default(),
            quic: Connections::new(options.show_values),
            settled: Settled::new(window),
            datagrams: Datagrams::default(),
            joiner: FragmentJoiner::new(decoder),
            addresses: Addresses::default(),
            overview: Overview::default(),
        }
    }

    /// Processes what concerns more than one connection, block by block, and adds to `batch` the
    /// packets that fragments in `block` complete.
    pub fn take(&mut self, batch: &mut Batch, block: &Block) {
        self.overview.take(batch, block);
        self.joiner.join(block, batch);
        if let Some(translated) = &mut self.translated {
            translated.examine(batch);
        }
        self.note(batch, block);
    }

    /// Does the same with a selection of the frames: those that concern the control. Counts and times
    /// of all frames come from elsewhere, as does which samples follow an answer.
    pub(crate) fn examine_selected(
        &mut self,
        batch: &mut Batch,
        block: &Block,
        answered: &HashSet<FrameId>,
    ) {
        self.joiner.join(block, batch);
        if let Some(translated) = &mut self.translated {
            translated.examine_selected(batch, answered);
        }
        self.note(batch, block);
    }

    /// Processes packets that are neither fragments nor copies.
    fn note(&mut self, batch: &Batch, block: &Block) {
        if batch.counts.non_ip > 0 {
            self.addresses.take(block);
        }
        for aside in &batch.asides {
            let place = batch.frame_of(aside).map_or(0, |frame| self.sites.place(frame));
            self.names[place].aside(aside, batch, block);
            self.quic.aside(place, aside);
        }
        if self.sites.are_two() {
            for (carried, payload) in batch.datagrams() {
                self.datagrams.sighting(self.sites.place(carried.frame), &carried, payload);
            }
        }
        let excess = self.names.each_mut().map(Names::collect);
        self.settled.take(excess);
    }

    /// Returns all look-ups, each once; those in progress end with the capture.
    pub(crate) fn take_lookups(&mut self) -> Vec<Lookup> {
        let names = std::mem::take(&mut self.names);
        let [mut all, more] = names.map(|names| names.finish(self.overview.last_ns));
        let new = dns::unknown_to(&all, more);
        all.extend(new);
        all
    }

    /// Returns what it shows besides look-ups so far.
    fn observed(&self) -> Observed {
        Observed::of(self.joiner.clone(), self.translated.as_ref(), &self.addresses)
    }

    /// Sets the time at which the input ends, ns, if not all frames were taken.
    pub(crate) fn end_at(&mut self, last_ns: u64) {
        self.overview.last_ns = last_ns;
    }

    /// Ends it at the end of the input: adds look-ups and counts to `found`, and returns the rest.
    pub(crate) fn finish(mut self, found: &mut Found) -> Observed {
        found.lookups = self.take_lookups();
        found.handshakes = self.quic.take_all();
        found.take_control(&mut self);
        Observed::of(self.joiner, self.translated.as_ref(), &self.addresses)
    }
}

/// An analysis in progress.
pub struct Analysis {
    options: Options,
    decoder: Decoder,
    control: Control,
    shards: Vec<Shard>,
}

impl Analysis {
    /// Begins an analysis.
    pub fn new(options: Options) -> Self {
        let shards = (0..SHARDS).map(|_| Shard::new(&options)).collect();
        let decoder = Decoder::new(&options);
        let control = Control::new(decoder.clone(), &options);
        Self { control, decoder, options, shards }
    }

    /// Analyses a whole capture on the calling thread, as long as `go_on` returns `true` after each
    /// block. Returns whether it reached the end.
    ///
    /// # Errors
    /// [`CaptureError`] if nothing can be read.
    pub fn run(&mut self, capture: &mut CaptureSet, go_on: GoOn<'_>) -> Result<bool, CaptureError> {
        let pass = Pass::new(self, capture, go_on);
        pass.work();
        pass.finish()
    }

    /// Ends all connections and returns the report.
    pub fn finish(self, inputs: &[InputSummary]) -> Report {
        let mut found = Found::default();
        let mut joint = None;
        for shard in self.shards {
            if let Some(twin) = shard.finish_into(&mut found) {
                found.segments += twin.tracker.segments;
                let mut settled = twin.accounts.finish();
                settled.other.notes.port_reuses += twin.tracker.port_reuses;
                settled.other.notes.evicted += twin.tracker.evicted;
                settled.other.notes.discarded_bytes += twin.tracker.discarded_bytes();
                joint.get_or_insert_with(Joint::default).take(settled, twin.pairs);
            }
        }
        let mut control = self.control;
        let other = joint.as_mut().map(|joint| {
            joint.time(std::mem::take(&mut control.datagrams.minima));
            joint.split(&mut found.tally)
        });
        let observed = control.finish(&mut found);
        let mut report = found.report(&self.options, observed, inputs);
        if let (Some(joint), Some(other)) = (joint, other) {
            let mut others = Report::default();
            findings::assemble(other, &self.options.floors, &mut others);
            joint.agree(&mut report, &others, &self.options.sites);
        }
        self.options.narrow(&mut report);
        report
    }
}
