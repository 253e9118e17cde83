//! The inputs in JSON.

use crate::capture::{InputSummary, LinkType, Problem};
use crate::model::Report;
use serde::Serialize;

/// A file that was read.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct InputView<'a> {
    /// As given; - is standard input.
    path: &'a str,
    /// Frames read.
    packets: u64,
    /// Bytes read, as stored.
    bytes: u64,
    /// Earliest frame, nanoseconds since the Unix epoch, by the file's own clock.
    first_ns: Option<u64>,
    /// Latest frame, nanoseconds since the Unix epoch, by the file's own clock.
    last_ns: Option<u64>,
    /// Link types of its frames, joined by commas; empty without frames.
    link_type: String,
    /// What is wrong with it.
    problems: Vec<ProblemView>,
    /// Where it was taken, if the input shows the same traffic at two places; 1 is nearer the
    /// clients.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(test, schemars(range(min = 1, max = 2)))]
    place: Option<u8>,
}

/// What is wrong with an input.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct ProblemView {
    /// A stable name.
    kind: &'static str,
    /// One sentence, to be read after the path.
    what: String,
    /// Whether frames are missing because of it.
    loses_frames: bool,
}

impl ProblemView {
    fn of(problem: &Problem) -> Self {
        Self {
            kind: problem.kind(),
            what: problem.to_string(),
            loses_frames: problem.loses_frames(),
        }
    }
}

impl<'a> InputView<'a> {
    pub(super) fn of(input: &'a InputSummary, report: &Report) -> Self {
        let names: Vec<String> = input.link_types.iter().copied().map(link_type).collect();
        Self {
            path: &input.path,
            packets: input.packets,
            bytes: input.bytes,
            first_ns: input.first_ns,
            last_ns: input.last_ns,
            link_type: names.join(","),
            problems: input.problems.iter().map(ProblemView::of).collect(),
            place: report.join.as_ref().map(|_| 1 + u8::from(input.site.is_second)),
        }
    }
}

/// Returns the registered name in lower case; `linktype_<number>` for link types that are not
/// supported.
pub(in crate::report) fn link_type(link: LinkType) -> String {
    let name = match link {
        LinkType::NULL => "null",
        LinkType::ETHERNET => "ethernet",
        LinkType::PPP => "ppp",
        LinkType::FDDI => "fddi",
        LinkType::RAW_BSD | LinkType::RAW => "raw",
        LinkType::PPP_HDLC => "ppp_hdlc",
        LinkType::CISCO_HDLC => "c_hdlc",
        LinkType::PPI => "ppi",
        LinkType::NFLOG => "nflog",
        LinkType::PPP_ETHER => "ppp_ether",
        LinkType::LOOP => "loop",
        LinkType::LINUX_SLL => "linux_sll",
        LinkType::IPV4 => "ipv4",
        LinkType::IPV6 => "ipv6",
        LinkType::LINUX_SLL2 => "linux_sll2",
        LinkType(number) => return format!("linktype_{number}"),
    };
    name.into()
}
