//! A second pass over a capture that has already been reported: it uses the same decoder, control
//! and trackers as the first pass, with another sink for connections and exchanges.

use crate::capture::Block;
use crate::dns::Lookup;
use crate::join::Sites;
use crate::pipeline::{Batch, Control, Decoder, Event, Options, SHARDS, follow};
use crate::tcp::{Sink, Tracker};
use crate::wire::{FlowHasher, Segment};

/// A second pass in progress.
pub(crate) struct SecondPass<S> {
    decoder: Decoder,
    control: Control,
    batch: Batch,
    connections: Connections<S>,
}

impl<S: Sink> SecondPass<S> {
    /// Begins a pass with the options of the first one.
    pub fn new(options: &Options, sink: S) -> Self {
        let decoder = Decoder::new(options);
        Self {
            control: Control::new(decoder.clone(), options),
            decoder,
            batch: Batch::default(),
            connections: Connections::new(options, sink),
        }
    }

    /// Processes the next block; `on_segment` receives each of its segments first, with the
    /// payload.
    pub fn take(&mut self, block: &Block, mut on_segment: impl FnMut(&Segment, &[u8])) {
        self.decoder.decode(block, &mut self.batch);
        self.control.take(&mut self.batch, block);
        for segment in self.batch.segments() {
            on_segment(segment, self.batch.payload(segment, block));
        }
        self.connections.take(&self.batch, block);
    }

    /// Returns the sink, which has received all events so far.
    pub fn sink(&mut self) -> &mut S {
        &mut self.connections.sink
    }

    /// Removes and returns the look-ups that are over; [`finish`](Self::finish) returns the others.
    pub fn take_finished_lookups(&mut self) -> Vec<Lookup> {
        self.control.take_finished_lookups()
    }

    /// Ends all connections; returns the sink, and the control with the look-ups.
    pub fn finish(self) -> (S, Control) {
        (self.connections.finish(), self.control)
    }
}

/// The connections of a second pass.
pub(crate) struct Connections<S> {
    sites: Sites,
    /// One tracker for each shard of the first pass, so that each sees the same connections.
    trackers: Vec<Tracker>,
    sink: S,
}

impl<S: Sink> Connections<S> {
    /// Begins with the options of the first pass. The fast path is disabled, so that `sink` receives
    /// every exchange in full.
    pub fn new(options: &Options, sink: S) -> Self {
        let tracker = |_| {
            let mut tracker = Tracker::default();
            tracker.share_early_bytes(SHARDS);
            tracker.shows_values = options.show_values;
            tracker.open_tls_with(options.keys.clone());
            tracker.disable_fast_path(true);
            tracker.limit_to(options.window());
            tracker
        };
        let (sites, trackers) = (options.sites.clone(), (0..SHARDS).map(tracker).collect());
        Self { sites, trackers, sink }
    }

    /// Processes the segments of a block.
    pub fn take(&mut self, batch: &Batch, block: &Block) {
        for (index, tracker) in self.trackers.iter_mut().enumerate() {
            for event in batch.events(index) {
                // Only the first of two vantages counts, so that no exchange is counted twice.
                let counts = match &event {
                    Event::Segment(segment) => self.sites.place(segment.frame) == 0,
                    Event::Error(error) => self.sites.place(error.frame) == 0,
                    Event::Copy(..) => !self.sites.are_two(),
                };
                if counts {
                    let payload = event.payload(batch, block);
                    follow(tracker, &event, payload, &mut self.sink);
                }
            }
        }
    }

    /// Processes one event of a connection with this flow hash, and the payload of a segment. There
    /// is one place.
    pub fn take_event(&mut self, flow_hash: u64, event: &Event<'_>, payload: &[u8]) {
        let tracker = &mut self.trackers[FlowHasher::shard(flow_hash, SHARDS)];
        follow(tracker, event, payload, &mut self.sink);
    }

    /// Ends all connections, and returns the sink.
    pub fn finish(mut self) -> S {
        self.trackers.iter_mut().for_each(|tracker| tracker.finish(&mut self.sink));
        self.sink
    }
}
