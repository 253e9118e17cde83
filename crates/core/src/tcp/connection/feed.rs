//! From bytes in order to the marks of a protocol, and from marks to exchanges.

use super::*;

impl Connection {
    pub(super) fn stream(
        &mut self,
        side: Side,
        start: u64,
        segment: &Segment,
        payload: &[u8],
        known: &mut KnownHeaders,
    ) {
        let positions = self.halves.each_ref().map(|half| half.nxt);
        let Self { streams, framer, timeline, setup, software, path, .. } = self;
        let rtt_client_ns = path.rtt_ns(Side::Client);
        streams[side as usize].push(
            side,
            start,
            segment.payload_len,
            payload,
            &mut |side, bytes, missing, end| {
                feed(
                    framer,
                    timeline,
                    setup,
                    software,
                    Push { side, bytes, missing, end, rtt_client_ns, positions, segment },
                    known,
                );
            },
        );
    }

    pub(super) fn skip(
        &mut self,
        side: Side,
        position: u64,
        segment: &Segment,
        known: &mut KnownHeaders,
    ) {
        let positions = self.halves.each_ref().map(|half| half.nxt);
        let Self { streams, framer, timeline, setup, software, path, .. } = self;
        let rtt_client_ns = path.rtt_ns(Side::Client);
        streams[side as usize].skip_to(side, position, &mut |side, bytes, missing, end| {
            feed(
                framer,
                timeline,
                setup,
                software,
                Push { side, bytes, missing, end, rtt_client_ns, positions, segment },
                known,
            );
        });
    }
}

/// Bytes in order, with the segment that completed them.
struct Push<'a> {
    side: Side,
    bytes: &'a [u8],
    missing: u32,
    end: u64,
    rtt_client_ns: u64,
    positions: [u64; 2],
    segment: &'a Segment,
}

fn feed(
    framer: &mut Framer,
    timeline: &mut Timeline,
    setup: &mut Setup,
    software: &mut Option<Box<Software>>,
    push: Push<'_>,
    known: &mut KnownHeaders,
) {
    let begin = push.end - push.bytes.len() as u64 - u64::from(push.missing);
    let open_ended = open_ended(framer.protocol());
    framer.push(push.side, push.bytes, push.missing, known, &mut |offset, mark| {
        if let Mark::Software(name) = mark {
            let software = software.get_or_insert_default();
            software[push.side as usize].get_or_insert_with(|| name.into());
        }
        let at = At {
            time_ns: push.segment.time_ns,
            frame: push.segment.frame,
            position: begin + u64::from(offset),
            rtt_client_ns: push.rtt_client_ns,
            open_ended,
            positions: push.positions,
        };
        timeline.mark(mark, at, setup);
    });
}
