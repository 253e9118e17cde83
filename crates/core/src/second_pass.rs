//! A second pass over a capture that has already been reported: it uses the same decoder, control
//! and trackers as the first pass, with another sink for connections and exchanges.

use crate::capture::Block;
use crate::dns::Lookup;
use crate::join::Sites;
use crate::pipeline::{Batch, Control, Decoder, Event, Options, SHARDS};
use crate::tcp::{Sink, Tracker};
use crate::wire::Segment;

/// A second pass in progress.
pub(crate) struct SecondPass<S> {
    decoder: Decoder,
    control: Control,
    batch: Batch,
    sites: Sites,
    /// One tracker for each shard of the first pass, so that each sees the same connections.
    trackers: Vec<Tracker>,
    /// Receives connections and exchanges.
    pub sink: S,
}

impl<S: Sink> SecondPass<S> {
    /// Begins a pass with the options of the first one. The fast path is disabled, so that the sink
    /// receives every exchange in full.
    pub fn new(options: &Options, sink: S) -> Self {
        let decoder = Decoder::new(options);
        let tracker = |_| {
            let mut tracker = Tracker::default();
            tracker.share_early_bytes(SHARDS);
            tracker.shows_values = options.show_values;
            tracker.disable_fast_path(true);
            tracker.limit_to(options.window());
            tracker
        };
        Self {
            control: Control::new(decoder.clone(), options.is_translated, options.window()),
            decoder,
            batch: Batch::default(),
            sites: options.sites.clone(),
            trackers: (0..SHARDS).map(tracker).collect(),
            sink,
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
        for (index, tracker) in self.trackers.iter_mut().enumerate() {
            for event in self.batch.events(index) {
                // Only the first of two vantages counts, so that no exchange is counted twice.
                match event {
                    Event::Segment(segment) if self.sites.place(segment.frame) == 0 => {
                        let payload = self.batch.payload(segment, block);
                        tracker.segment(segment, payload, &mut self.sink);
                    }
                    Event::Error(error) if self.sites.place(error.frame) == 0 => {
                        tracker.icmp_error(error);
                    }
                    Event::Copy(flow, hash) if !self.sites.are_two() => {
                        tracker.exclude(flow, hash);
                    }
                    _ => {}
                }
            }
        }
    }

    /// Removes and returns the look-ups that are over; [`finish`](Self::finish) returns the others.
    pub fn take_finished_lookups(&mut self) -> Vec<Lookup> {
        self.control.take_finished_lookups()
    }

    /// Ends all connections; returns the sink, and the control with the look-ups.
    pub fn finish(mut self) -> (S, Control) {
        self.trackers.iter_mut().for_each(|tracker| tracker.finish(&mut self.sink));
        (self.sink, self.control)
    }
}
