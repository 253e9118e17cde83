//! What a finding says of the frames of its evidence is what those frames are.

use super::{diagnose, testdata};
use std::collections::HashMap;
use tcpwhy_core::app::Side;
use tcpwhy_core::capture::{Block, CaptureSet, FrameId, Source};
use tcpwhy_core::report::{Evidence, Finding};
use tcpwhy_core::wire::{Endpoint, FlowHasher, Packet, Segment, decode};

/// Port of a name server.
const DNS_PORT: u16 = 53;

/// A frame by itself: when it passed, and of what it carries who sent it and how much.
struct Seen {
    time_ns: u64,
    carried: Option<(Endpoint, usize)>,
}

fn frames(name: &str, bytes: Vec<u8>) -> HashMap<FrameId, Seen> {
    let mut capture = CaptureSet::new(vec![Source::memory(name, bytes)]).expect("a capture");
    let (mut block, mut frames) = (Block::default(), HashMap::new());
    while capture.next_block(&mut block).expect("a readable capture") {
        for frame in block.frames() {
            let mut segment = Segment::default();
            let carried = match decode(&frame, &FlowHasher::new(0), &mut segment) {
                Packet::Tcp => Some((*segment.source(), segment.payload_len as usize)),
                Packet::Udp(datagram) => Some((datagram.source, datagram.payload.len())),
                _ => None,
            };
            frames.insert(frame.id, Seen { time_ns: frame.time_ns, carried });
        }
    }
    frames
}

/// What is said of one frame and is not so.
fn untrue(
    finding: &Finding,
    link: &Evidence,
    before: &Evidence,
    frames: &HashMap<FrameId, Seen>,
) -> Vec<String> {
    let (seen, earlier) = (&frames[&link.frame], &frames[&before.frame]);
    let mut wrong = Vec::new();
    let after_ns = seen.time_ns.abs_diff(earlier.time_ns);
    if link.after_ns != after_ns {
        wrong.push(format!("comes {after_ns} ns after the one before, not {}", link.after_ns));
    }
    let Some((source, payload_bytes)) = seen.carried else { return wrong };
    if link.payload_bytes as usize != payload_bytes {
        wrong.push(format!("carries {payload_bytes} bytes, not {}", link.payload_bytes));
    }
    let (client, server) = finding.evidence_flow.expect("the connection of the evidence");
    // Of a look-up, several name servers may have been asked, and from several ports.
    let from_server = source == server || source.port == DNS_PORT && source != client;
    let from = if from_server { Side::Server } else { Side::Client };
    if link.from != from {
        wrong.push(format!("is from the {from:?}"));
    }
    wrong
}

#[test]
fn what_is_said_of_a_frame_is_so() {
    let captures = std::fs::read_dir(testdata().join("captures")).expect("captures");
    let mut wrong = Vec::new();
    for capture in captures {
        let path = capture.expect("a file").path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let frames = frames(&name, std::fs::read(&path).expect("a capture"));
        for finding in &diagnose(&path).findings {
            let chain = &finding.evidence;
            for (link, before) in chain.iter().zip(chain.iter().take(1).chain(chain)) {
                for what in untrue(finding, link, before, &frames) {
                    let (cause, frame) = (finding.cause.id(), link.frame.number());
                    wrong.push(format!("{name}: {cause} #{frame} ({}) {what}", link.part));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
