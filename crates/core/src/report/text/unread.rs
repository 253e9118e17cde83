//! Frames that were left out because they could not be decoded.

use super::{Language, Page, Report, link_type};
use crate::findings::thresholds::FEW_SHARE;
use crate::say;
use crate::wire::DecodeError;

/// Maximum number of link types that are named.
const NAMED_MAX: usize = 3;

/// Warns of frames whose link type is not supported.
pub(super) fn warn_of_links(page: &mut Page<'_>, report: &Report) {
    let mut errors = report.totals.decode_errors.errors();
    let unread = errors.find(|(kind, _)| *kind == DecodeError::LinkTypeUnsupported);
    let Some((_, count)) = unread.filter(|(_, count)| *count > 0) else { return };
    let language = page.look.language;
    let named = named_links(report, language);
    page.warning(&say!(language, "link_unread", count, named));
}

/// Warns of frames in tunnels of a kind that is not read.
pub(super) fn warn_of_tunnels(page: &mut Page<'_>, report: &Report) {
    let mut errors = report.totals.decode_errors.errors();
    let unread = errors.find(|(kind, _)| *kind == DecodeError::TunnelUnsupported);
    let Some((_, count)) = unread.filter(|(_, count)| *count > 0) else { return };
    page.warning(&say!(page.look.language, "tunnel_unread", count));
}

/// Says how many packets are of protocols over UDP that are not read, if they are no slight part. SIP, which
/// has requests, answers and errors of its own, is named.
pub(super) fn udp(report: &Report, language: Language) -> String {
    let counts = &report.totals.decode_errors;
    let quic = report.quic.short_datagrams;
    let udp = counts.udp_other.saturating_sub(quic);
    let (unread, read) = (udp + counts.sip, counts.tcp + counts.datagrams + counts.quic + quic);
    let all = unread + read;
    if unread as f64 <= FEW_SHARE * all as f64 || !report.only.is_empty() {
        return String::new();
    }
    let all_sip = counts.sip > 0 && udp == 0;
    let sip = (counts.sip > 0 && !all_sip).then_some(counts.sip);
    say!(language, "udp_unread", count = unread, all_sip, sip)
}

/// Returns the unsupported link types in brackets, if there are any; supported ones have a name.
fn named_links(report: &Report, language: Language) -> Option<String> {
    let links = report.inputs.iter().flat_map(|input| &input.link_types);
    let named = links.map(|&link| link_type(link));
    let mut unread: Vec<String> = named.filter(|name| name.starts_with("linktype_")).collect();
    unread.sort();
    unread.dedup();
    let more = unread.len().saturating_sub(NAMED_MAX);
    unread.truncate(NAMED_MAX);
    let links = unread.join(language.glue().comma);
    let more = Some(more as u64).filter(|it| *it > 0);
    (!unread.is_empty()).then(|| say!(language, "links_named", links, more))
}

/// Explains why nothing can be diagnosed if no TCP connection and no look-up was decoded; frames
/// that could not be decoded may contain some.
pub(super) fn nothing_read(report: &Report, language: Language) -> String {
    let errors = report.totals.decode_errors.errors();
    let left_out: u64 = errors.map(|(_, count)| count).sum();
    let frames: u64 = report.inputs.iter().map(|input| input.packets).sum();
    let named = named_links(report, language);
    match left_out {
        0 => say!(language, "nothing_in_it"),
        _ if left_out >= frames => say!(language, "nothing_readable", count = left_out, named),
        _ => {
            let rest = frames - left_out;
            say!(language, "nothing_else", count = left_out, named, rest)
        }
    }
}
