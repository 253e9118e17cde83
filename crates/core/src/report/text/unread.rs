//! Frames that were left out because they could not be decoded.

use super::{Page, Report, counted, link_type, units};
use crate::findings::thresholds::FEW_SHARE;
use crate::wire::DecodeError;

/// Maximum number of link types that are named.
const NAMED_MAX: usize = 3;

/// Warns of frames whose link type is not supported.
pub(super) fn warn_of_links(page: &mut Page<'_>, report: &Report) {
    let mut errors = report.totals.decode_errors.errors();
    let unread = errors.find(|(kind, _)| *kind == DecodeError::LinkTypeUnsupported);
    let Some((_, count)) = unread.filter(|(_, count)| *count > 0) else { return };
    let named = named_links(report);
    let frames = counted(count, "frame was", "frames were");
    page.warning(&format!(
        "{frames} left out: the link type is not read{named}; capture where packets are \
         Ethernet or IP"
    ));
}

/// Warns of frames in tunnels of a kind that is not read.
pub(super) fn warn_of_tunnels(page: &mut Page<'_>, report: &Report) {
    let mut errors = report.totals.decode_errors.errors();
    let unread = errors.find(|(kind, _)| *kind == DecodeError::TunnelUnsupported);
    let Some((_, count)) = unread.filter(|(_, count)| *count > 0) else { return };
    let frames = counted(count, "frame was", "frames were");
    page.warning(&format!(
        "{frames} left out: what their GRE tunnel carries is not read; capture before or behind \
         the tunnel"
    ));
}

/// Says how many packets are of protocols over UDP that are not read, if they are no slight part. SIP, which
/// has requests, answers and errors of its own, is named.
pub(super) fn udp(report: &Report) -> String {
    let counts = &report.totals.decode_errors;
    let (unread, read) = (counts.udp_other + counts.sip, counts.tcp + counts.datagrams);
    let all = unread + read;
    if unread as f64 <= FEW_SHARE * all as f64 || !report.only.is_empty() {
        return String::new();
    }
    let unread = counted(unread, "packet is", "packets are");
    let sip = match counts.sip {
        0 => String::new(),
        all if all == counts.udp_other + all => ", namely SIP".into(),
        some => format!(", {} of them of SIP", units::count(some)),
    };
    format!(" {unread} of other protocols over UDP{sip}, which are not examined.")
}

/// Returns the unsupported link types in brackets; supported ones have a name.
fn named_links(report: &Report) -> String {
    let links = report.inputs.iter().flat_map(|input| &input.link_types);
    let named = links.map(|&link| link_type(link));
    let mut unread: Vec<String> = named.filter(|name| name.starts_with("linktype_")).collect();
    unread.sort();
    unread.dedup();
    let more = unread.len().saturating_sub(NAMED_MAX);
    unread.truncate(NAMED_MAX);
    match (unread.is_empty(), more) {
        (true, _) => String::new(),
        (false, 0) => format!(" ({})", unread.join(", ")),
        (false, more) => format!(" ({} and {more} more)", unread.join(", ")),
    }
}

/// Explains why nothing can be diagnosed if no TCP connection and no look-up was decoded; frames
/// that could not be decoded may contain some.
pub(super) fn nothing_read(report: &Report) -> String {
    let errors = report.totals.decode_errors.errors();
    let left_out: u64 = errors.map(|(_, count)| count).sum();
    let frames: u64 = report.inputs.iter().map(|input| input.packets).sum();
    let named = named_links(report);
    match left_out {
        0 => "Nothing to judge: there is no TCP connection and no name look-up in it.".into(),
        _ if left_out >= frames => {
            let frames = counted(left_out, "frame", "frames");
            format!("Nothing to judge: {frames} could not be read{named}, and there are no others.")
        }
        _ => {
            let rest = units::count(frames - left_out);
            let frames = counted(left_out, "frame", "frames");
            format!(
                "Nothing to judge: {frames} could not be read{named}, and none of the other {rest} \
                 belongs to a TCP connection or a name look-up."
            )
        }
    }
}
