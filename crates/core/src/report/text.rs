//! The report for a terminal: what, who and what to do first; the proof below it.

use super::layout::{Page, columns_of, cut, left, right};
use super::phrases::{self, Phrases, endpoint, share_of};
use super::style::{Look, Paint};
use super::{EndpointReport, Evidence, Finding, Latency, Ledger, Report, Vantage, units};
use crate::app::Side;
use crate::cause::{Class, Owner, Role};

/// Fixes shown of each finding; the manual has all.
const FIXES_MAX: usize = 3;
/// Endpoints and kinds shown in the latency table.
const ENDPOINTS_MAX: usize = 8;
const KINDS_MAX: usize = 4;
/// Owners below this share are summed up in the bar's legend.
const LEGEND_SHARE_MIN: f64 = 0.001;

/// A finding with its words.
type Said<'a> = (&'a Finding, Phrases);

/// The whole report as text.
pub fn render(report: &Report, look: &Look) -> String {
    let mut page = Page::new(look);
    inputs(&mut page, report);
    limits(&mut page, report);
    page.gap();
    // What somebody can repair comes first, however much time goes into what nobody can.
    let (faults, costs): (Vec<_>, Vec<_>) =
        report.findings.iter().map(|it| (it, Phrases::of(it))).partition(|it| is_fault(it.0));
    let findings: Vec<Said<'_>> = faults.into_iter().chain(costs).collect();
    headline(&mut page, report, &findings);
    overview(&mut page, &findings);
    for (finding, phrases) in &findings {
        page.gap();
        self::finding(&mut page, report, finding, phrases);
    }
    page.gap();
    where_the_time_went(&mut page, report);
    latency(&mut page, report);
    observations(&mut page, report);
    page.finish()
}

/// What was read, and where it was captured.
fn inputs(page: &mut Page<'_>, report: &Report) {
    let totals = &report.totals;
    let packets: u64 = report.inputs.iter().map(|input| input.packets).sum();
    let name = match report.inputs.as_slice() {
        [one] if one.path == "-" => "standard input".into(),
        [one] => units::printable(&one.path),
        many => format!("{} files", units::count(many.len() as u64)),
    };
    let mut facts = vec![
        units::duration(totals.last_ns.saturating_sub(totals.first_ns)),
        counted(packets, "packet", "packets"),
        counted(totals.connections, "connection", "connections"),
        counted(totals.exchanges, "exchange", "exchanges"),
    ];
    if totals.lookups > 0 {
        facts.push(counted(totals.lookups, "name look-up", "name look-ups"));
    }
    facts.extend(captured_at(totals.vantage).map(str::to_owned));
    let facts = facts.join(" · ");
    if columns_of(&name) + columns_of(&facts) + 3 <= page.look.width {
        let name = page.look.paint(Paint::Bold, &name);
        page.line(&format!("{name}   {facts}"));
    } else {
        page.paragraph(Some(Paint::Bold), &name, 0);
        page.paragraph(None, &facts, 2);
    }
}

fn captured_at(vantage: Vantage) -> Option<&'static str> {
    match vantage {
        Vantage::Unknown => None,
        Vantage::Client => Some("captured at the client"),
        Vantage::Server => Some("captured at the server"),
        Vantage::Middle => Some("captured between client and server"),
        Vantage::Local => Some("captured beside client and server"),
        Vantage::Mixed => Some("captured at several places"),
    }
}

/// What limits the report comes before what it says.
fn limits(page: &mut Page<'_>, report: &Report) {
    for input in &report.inputs {
        for problem in &input.problems {
            let text = format!("{} {problem}", input.path);
            page.warning(&units::printable(&text));
        }
    }
    let errors: u64 = report.totals.decode_errors.errors().map(|(_, count)| count).sum();
    if errors > 0 {
        let kinds = report.totals.decode_errors.errors();
        let kinds = kinds.map(|(kind, count)| format!("{} {}", units::count(count), kind.name()));
        let kinds: Vec<String> = kinds.collect();
        let frames = counted(errors, "frame was", "frames were");
        page.warning(&format!("{frames} malformed and left out: {}", kinds.join(", ")));
    }
    for observation in &report.observations {
        if let (true, text) = phrases::observation(observation) {
            page.warning(&text);
        }
    }
}

/// The answer in one sentence, and the first thing to do.
fn headline(page: &mut Page<'_>, report: &Report, findings: &[Said<'_>]) {
    let first = findings.first();
    let Some((finding, phrases)) = first.filter(|(finding, _)| is_fault(finding)) else {
        return healthy(page, report, first);
    };
    let mut text = format!("{}.", phrases.headline);
    if finding.lost_ns > 0 && finding.counterfactual.p50_ns < finding.latency.p50_ns {
        let (now, then) = (finding.latency.p50_ns, finding.counterfactual.p50_ns);
        text += &format!(" p50 {} would be {}.", units::duration(now), units::duration(then));
    } else if finding.lost_ns > 0 && finding.counterfactual.p99_ns < finding.latency.p99_ns {
        let (now, then) = (finding.latency.p99_ns, finding.counterfactual.p99_ns);
        text += &format!(" p99 {} would be {}.", units::duration(now), units::duration(then));
    }
    page.paragraph(Some(Paint::Bold), &text, 0);
    if let Some(fix) = phrases.fixes.first() {
        page.labelled("do", &format!("{}: {}", fix.place, fix.change));
    }
}

fn healthy(page: &mut Page<'_>, report: &Report, cost: Option<&Said<'_>>) {
    let totals = &report.totals;
    if totals.exchanges == 0 {
        let connections = counted(totals.connections, "connection", "connections");
        let text = match totals.connections + totals.lookups {
            0 => "Nothing to judge: there is no TCP connection and no name look-up in it.".into(),
            _ => format!("No fault found, but no complete exchange either in {connections}."),
        };
        return page.paragraph(Some(Paint::Bold), &text, 0);
    }
    let exchanges = counted(totals.exchanges, "exchange", "exchanges");
    let (p50, p99) = (report.latency.p50_ns, report.latency.p99_ns);
    let (p50, p99) = (units::duration(p50), units::duration(p99));
    let mut text = format!("No fault in {exchanges}: p50 {p50}, p99 {p99}.");
    if let Some((_, phrases)) = cost {
        text += &format!(" {}.", phrases.headline);
    }
    page.paragraph(Some(Paint::Good), &text, 0);
}

/// With several findings, a line each before the details.
fn overview(page: &mut Page<'_>, findings: &[Said<'_>]) {
    if findings.len() < 2 {
        return;
    }
    page.gap();
    let ids = findings.iter().map(|(finding, _)| finding.cause.id().len());
    let id_columns = ids.max().unwrap_or(0);
    for (finding, _) in findings {
        let (lost, share) = match finding.lost_ns {
            0 => ("–".into(), String::new()),
            lost_ns => (units::duration(lost_ns), units::share(finding.share)),
        };
        let id = left(finding.cause.id(), id_columns);
        let row = format!("{} {}  {id}  ", right(&lost, 9), right(&share, 7));
        let room = page.look.width.saturating_sub(columns_of(&row) + 7).max(8);
        page.line(&format!("{}{row}{}", class(page.look, finding), cut(&culprit(finding), room)));
    }
}

fn finding(page: &mut Page<'_>, report: &Report, finding: &Finding, phrases: &Phrases) {
    heading(page, report, finding);
    page.labelled("what", &phrases.what);
    evidence(page, report, finding, phrases);
    for (index, (cause, why)) in phrases.ruled_out.iter().enumerate() {
        page.labelled(if index == 0 { "not" } else { "" }, &format!("{}: {why}", cause.id()));
    }
    for (index, fix) in phrases.fixes.iter().take(FIXES_MAX).enumerate() {
        let text = format!("{}: {} → {}", fix.place, fix.change, fix.effect);
        page.labelled(if index == 0 { "fix" } else { "" }, &text);
    }
    if phrases.fixes.len() > FIXES_MAX {
        let more = phrases.fixes.len() - FIXES_MAX;
        let text = format!("{more} more: `tcpwhy explain --cause {}`", finding.cause.id());
        page.labelled("", &text);
    }
    if is_fault(finding) {
        page.command("verify", &phrases.verify);
    }
}

/// Class, cause, culprit, loss, extent, confidence: one line where it fits.
fn heading(page: &mut Page<'_>, report: &Report, finding: &Finding) {
    let affected = &finding.affected;
    let mut facts = vec![culprit(finding)];
    if finding.lost_ns > 0 {
        let whole = units::duration(report.totals.wall_ns);
        facts.push(format!("lost {} of {whole}", units::duration(finding.lost_ns)));
    }
    if affected.exchanges > 0 {
        let whole = units::count(affected.of_exchanges);
        facts.push(format!("{} of {whole} exchanges", units::count(affected.exchanges)));
    } else if affected.connections > 0 {
        facts.push(counted(affected.connections, "connection", "connections"));
    }
    facts.push(format!("confidence {:.2}", finding.confidence));
    let title = page.look.paint(Paint::Bold, finding.cause.id());
    let class = class(page.look, finding);
    let plain = 7 + columns_of(finding.cause.id());
    let one_line = facts.join("   ");
    if plain + 3 + columns_of(&one_line) <= page.look.width {
        page.line(&format!("{class}{title}   {one_line}"));
    } else {
        page.line(&format!("{class}{title}   {}", facts.remove(0)));
        page.labelled("", &facts.join(" · "));
    }
}

fn class(look: &Look, finding: &Finding) -> String {
    match finding.cause.class() {
        Class::Fault => look.paint(Paint::Fault, "FAULT  "),
        Class::Cost => look.paint(Paint::Cost, "COST   "),
    }
}

fn is_fault(finding: &Finding) -> bool {
    finding.cause.class() == Class::Fault
}

/// Who has to change something.
fn culprit(finding: &Finding) -> String {
    let at = endpoint(&finding.culprit.endpoint);
    match finding.culprit.role {
        Role::Network => format!("network to {at}"),
        role => format!("{} {at}", role.id()),
    }
}

/// One line per frame of the chain, then the filter that shows them in Wireshark.
fn evidence(page: &mut Page<'_>, report: &Report, finding: &Finding, phrases: &Phrases) {
    let Some(first) = finding.evidence.first() else { return };
    let rows: Vec<[String; 4]> = finding.evidence.iter().enumerate().map(columns).collect();
    let width = |column: usize| rows.iter().map(|row| columns_of(&row[column])).max().unwrap_or(0);
    let widths: [usize; 4] = std::array::from_fn(width);
    for (index, (row, words)) in rows.iter().zip(&phrases.evidence).enumerate() {
        let [number, from, bytes, after] = row;
        let start = format!(
            "{} {} {} {}  ",
            left(number, widths[0]),
            left(from, widths[1]),
            right(bytes, widths[2]),
            right(after, widths[3])
        );
        page.columned(if index == 0 { "evidence" } else { "" }, &start, words);
    }
    if report.inputs.len() > 1
        && let Some(input) = report.inputs.get(usize::from(first.frame.file()))
    {
        page.labelled("in", &units::printable(&input.path));
    }
    page.labelled("wireshark", &phrases::wireshark_filter(finding, first.frame.file()));
}

/// Number, sender, payload, and time since the frame before, of one frame of a chain.
fn columns((index, link): (usize, &Evidence)) -> [String; 4] {
    let from = match link.from {
        Side::Client => "client",
        Side::Server => "server",
    };
    let bytes = match link.payload_bytes {
        0 => "–".into(),
        bytes => format!("{} B", units::count(bytes.into())),
    };
    let after = match index {
        0 => String::new(),
        _ => format!("+{}", units::duration(link.after_ns)),
    };
    [format!("#{}", link.frame.number()), from.into(), bytes, after]
}

/// The ledger as a bar with a legend; `unknown` is always shown.
fn where_the_time_went(page: &mut Page<'_>, report: &Report) {
    let whole_ns = report.ledger.total_ns();
    if whole_ns == 0 {
        return;
    }
    let title = page.look.paint(Paint::Bold, "where the time went");
    let exchanges = counted(report.totals.exchanges, "exchange", "exchanges");
    page.line(&format!("{title}   {} in {exchanges}", units::duration(whole_ns)));
    let owners = ranked(&report.ledger);
    page.line(&format!("  {}", bar(page.look, &owners, whole_ns)));
    let (mut small_ns, mut legend) = (0, Vec::new());
    for (rank, &(owner, ns)) in owners.iter().enumerate() {
        let small = (ns as f64) < LEGEND_SHARE_MIN * whole_ns as f64;
        if small && owner != Owner::Unknown {
            small_ns += ns;
            continue;
        }
        let sign = page.look.segment(rank).to_string();
        legend.push((rank, sign, format!("{} {}", owner.id(), share_of(ns, whole_ns))));
    }
    if small_ns > 0 {
        legend.push((usize::MAX, " ".into(), format!("others {}", share_of(small_ns, whole_ns))));
    }
    self::legend(page, &legend);
}

/// Owners by time; `unknown` last, even if it has none.
fn ranked(ledger: &Ledger) -> Vec<(Owner, u64)> {
    let mut owners: Vec<_> = ledger.iter().filter(|(owner, _)| *owner != Owner::Unknown).collect();
    owners.sort_by_key(|&(owner, ns)| (std::cmp::Reverse(ns), owner));
    owners.push((Owner::Unknown, ledger.of(Owner::Unknown)));
    owners
}

fn bar(look: &Look, owners: &[(Owner, u64)], whole_ns: u64) -> String {
    let width = look.width.saturating_sub(4).clamp(16, 76);
    let (mut text, mut done_ns, mut done) = (String::new(), 0u64, 0);
    for (rank, &(_, ns)) in owners.iter().enumerate() {
        done_ns += ns;
        // Ends are rounded, not lengths: the lengths then sum to the width.
        let end = (done_ns as f64 / whole_ns as f64 * width as f64).round() as usize;
        let length = end.min(width).saturating_sub(done);
        let piece = look.segment(rank).to_string().repeat(length);
        if !piece.is_empty() {
            text.push_str(&look.paint(Paint::Segment(rank), &piece));
        }
        done += length;
    }
    text
}

/// Legend entries side by side, as many as fit in a line.
fn legend(page: &mut Page<'_>, entries: &[(usize, String, String)]) {
    let (mut line, mut columns) = (String::new(), 0);
    for (rank, sign, text) in entries {
        let length = 2 + columns_of(text) + 3;
        if columns > 0 && columns + length > page.look.width {
            page.line(&format!("  {line}"));
            (line, columns) = (String::new(), 0);
        }
        line.push_str(&page.look.paint(Paint::Segment(*rank), sign));
        line.push_str(&format!(" {text}   "));
        columns += length;
    }
    page.line(&format!("  {line}"));
}

/// Percentiles per endpoint, under each what they would be without its faults, and its kinds.
fn latency(page: &mut Page<'_>, report: &Report) {
    if report.totals.exchanges == 0 {
        return;
    }
    page.gap();
    let columns = Columns::of(page.look);
    let head = columns.shown(["p50", "p90", "p99", "max"].map(str::to_owned));
    let head = page.look.paint(Paint::Dim, &format!("{}{head}", right("exchanges", 11)));
    let title = page.look.paint(Paint::Bold, &left("latency", columns.name + 2));
    page.line(&format!("{title}{head}"));
    for endpoint in report.endpoints.iter().take(ENDPOINTS_MAX) {
        endpoint_rows(page, report, endpoint, &columns);
    }
    if report.endpoints.len() != 1 {
        percentiles(page, "all", &columns, Some(report.totals.exchanges), &report.latency);
    }
    let more = report.endpoints.len().saturating_sub(ENDPOINTS_MAX) as u64;
    if more > 0 {
        page.line(&format!("  {} (--json has all)", counted(more, "endpoint more", "endpoints more")));
    }
}

/// The latency table's columns: as many times as leave room for a name.
struct Columns {
    name: usize,
    times: &'static [usize],
}

impl Columns {
    fn of(look: &Look) -> Self {
        let times: &[usize] = match look.width {
            0..70 => &[0, 2],
            70..90 => &[0, 1, 2],
            _ => &[0, 1, 2, 3],
        };
        let name = look.width.saturating_sub(2 + 11 + times.len() * 10).clamp(16, 44);
        Self { name, times }
    }

    /// Of p50, p90, p99 and max those that are shown.
    fn shown(&self, cells: [String; 4]) -> String {
        self.times.iter().filter_map(|&at| cells.get(at)).map(|cell| right(cell, 10)).collect()
    }
}

fn endpoint_rows(page: &mut Page<'_>, report: &Report, at: &EndpointReport, columns: &Columns) {
    let mut name = endpoint(&at.endpoint);
    if let Some(software) = at.software.as_deref().map(units::printable)
        && columns_of(&name) + 2 + columns_of(&software) <= columns.name
    {
        name += &format!("  {software}");
    }
    percentiles(page, &name, columns, Some(at.exchanges), &at.latency);
    let here = report.findings.iter().filter(|finding| {
        let flow = finding.evidence_flow.as_ref();
        let server = flow.map_or(&finding.culprit.endpoint, |(_, server)| server);
        *server == at.endpoint && is_fault(finding) && finding.lost_ns > 0
    });
    for finding in here.filter(|finding| finding.counterfactual != Latency::default()) {
        let name = format!("  without {}", finding.cause.id());
        percentiles(page, &name, columns, None, &finding.counterfactual);
    }
    let kinds = at.kinds.iter().filter(|kind| !kind.kind.is_empty());
    for kind in kinds.take(KINDS_MAX) {
        let name = format!("  {}", units::printable(&kind.kind));
        percentiles(page, &name, columns, Some(kind.exchanges), &kind.latency);
    }
}

fn percentiles(page: &mut Page<'_>, name: &str, columns: &Columns, of: Option<u64>, at: &Latency) {
    let exchanges = of.map(units::count).unwrap_or_default();
    let times = [at.p50_ns, at.p90_ns, at.p99_ns, at.max_ns].map(units::duration);
    let times = columns.shown(times);
    let name = left(&cut(name, columns.name), columns.name);
    page.line(&format!("  {name}{}{times}", right(&exchanges, 11)));
}

fn observations(page: &mut Page<'_>, report: &Report) {
    let phrased = report.observations.iter().map(phrases::observation);
    let noted: Vec<String> = phrased.filter(|(limits, _)| !limits).map(|(_, text)| text).collect();
    if noted.is_empty() {
        return;
    }
    page.gap();
    let title = page.look.paint(Paint::Bold, "also seen");
    page.line(&format!("{title}   none of it cost anybody time"));
    for text in &noted {
        page.item(text);
    }
}

fn counted(number: u64, one: &str, many: &str) -> String {
    format!("{} {}", units::count(number), if number == 1 { one } else { many })
}
