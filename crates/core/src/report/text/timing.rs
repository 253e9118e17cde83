//! The ledger as a bar, and the latency of exchanges as a table.

use super::effect::is_predicted;
use super::sums;
use crate::app::ErrorCode;
use crate::findings::term;
use crate::model::units::endpoint_or_others;
use crate::model::{
    EndpointReport, Finding, Language, Latency, Ledger, OutcomeKind, Outcomes, Owner, Prediction,
    Report, units,
};
use crate::report::layout::{Page, columns_of, cut, left, right};
use crate::report::phrases::{owner_name, share_of};
use crate::report::style::{Look, Paint};
use crate::say;
use crate::wire::Endpoint;

/// Endpoints, and kinds of requests of each, shown in the latency table.
const ENDPOINTS_MAX: usize = 8;
const KINDS_MAX: usize = 4;
/// Columns of a time and the blank before it, except for long times.
const TIME_COLUMNS: usize = 10;
/// Owners with a smaller share are summed up in the bar's legend.
const LEGEND_SHARE_MIN: f64 = 0.001;

/// Writes the ledger as a bar with a legend; `unknown` is always shown.
pub(super) fn where_the_time_went(page: &mut Page<'_>, report: &Report) {
    let whole_ns = report.ledger.total_ns();
    if whole_ns == 0 {
        return;
    }
    let (totals, language) = (&report.totals, page.look.language);
    let streams = totals.connections.saturating_add(totals.lookups);
    let overlaps = sums::overlap(report, whole_ns, (totals.exchanges, streams));
    let (time, count) = (units::duration(whole_ns), totals.exchanges);
    page.title("where the time went", &say!(language, "time_in_exchanges", time, count, overlaps));
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
        legend.push((
            rank,
            sign,
            format!("{} {}", owner_name(owner, language), share_of(ns, whole_ns)),
        ));
    }
    if small_ns > 0 {
        let others = say!(language, "others", share = share_of(small_ns, whole_ns));
        legend.push((usize::MAX, " ".into(), others));
    }
    self::legend(page, &legend);
    for line in sums::lines(report, language) {
        page.paragraph(None, &line, 2);
    }
}

/// Returns the owners by time, descending; `unknown` last, even if it has none.
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
        // End positions are rounded, not lengths, so that the lengths sum to the width.
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

/// Writes legend entries side by side, as many as fit in a line.
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

/// Writes the percentiles of each endpoint, those predicted without its faults, and those of its
/// kinds of requests.
pub(super) fn latency(page: &mut Page<'_>, report: &Report) {
    if report.totals.exchanges == 0 {
        return;
    }
    page.gap();
    let columns = Columns::of(page.look, report);
    let head = columns
        .shown(["p50", "p90", "p99", "max"].map(|name| term(page.look.language, name).to_owned()));
    let language = page.look.language;
    let exchanges = right(term(language, "exchanges"), 11);
    let head = page.look.paint(Paint::Dim, &format!("{exchanges}{head}"));
    let title = left(term(language, "latency"), columns.name + 2);
    let title = page.look.paint(Paint::Bold, &title);
    page.line(&format!("{title}{head}"));
    let shown = if page.look.all { report.endpoints.len() } else { ENDPOINTS_MAX };
    for endpoint in report.endpoints.iter().take(shown) {
        endpoint_rows(page, report, endpoint, &columns);
    }
    if report.endpoints.len() != 1 {
        percentiles(
            page,
            term(language, "all"),
            &columns,
            Some(report.totals.exchanges),
            &report.latency,
        );
        let of_all: Vec<_> = predicted(report, report.totals.exchanges).collect();
        without_rows(page, &of_all, &columns);
    }
    let more = report.endpoints.len().saturating_sub(shown) as u64 + report.endpoints_omitted;
    if more > 0 {
        page.line(&format!("  {}", say!(language, "more_endpoints", count = more)));
    }
}

/// Layout of the latency table: as many times as leave room for a name, each with a blank before
/// it.
struct Columns {
    name: usize,
    time: usize,
    times: &'static [usize],
}

impl Columns {
    fn of(look: &Look, report: &Report) -> Self {
        let times: &[usize] = match look.width {
            0..70 => &[0, 2],
            70..90 => &[0, 1, 2],
            _ => &[0, 1, 2, 3],
        };
        let kinds = report.endpoints.iter().flat_map(|at| &at.kinds).map(|kind| kind.latency);
        let without = report.findings.iter().filter(|finding| is_predicted(finding));
        let without = without.flat_map(left_over_times);
        let all = report.endpoints.iter().map(|at| at.latency).chain(kinds);
        let all = all.chain([report.latency]).flat_map(shown_times).chain(without);
        let longest = all.map(|it| columns_of(&it));
        let time = 1 + longest.max().unwrap_or(0).max(TIME_COLUMNS - 1);
        let name = look.width.saturating_sub(2 + 11 + times.len() * time).clamp(16, 44);
        Self { name, time, times }
    }

    /// Returns the cells of p50, p90, p99 and maximum that are shown.
    fn shown(&self, cells: [String; 4]) -> String {
        let cells = self.times.iter().filter_map(|&at| cells.get(at));
        cells.map(|cell| right(cell, self.time)).collect()
    }
}

fn shown_times(at: Latency) -> [String; 4] {
    [at.p50_ns, at.p90_ns, at.p99_ns, at.max_ns].map(units::duration)
}

/// Formats a predicted latency: the interval of each percentile, or its value if that is known.
fn left_over_times(finding: &Finding) -> [String; 4] {
    let (now, Prediction { least, most, .. }) = (&finding.latency, &finding.counterfactual);
    let shown = |of: fn(&Latency) -> u64| match of(least) == of(most) {
        true => units::duration(of(most)),
        false => units::range_below(of(least), of(most), of(now)),
    };
    [shown(|of| of.p50_ns), shown(|of| of.p90_ns), shown(|of| of.p99_ns), shown(|of| of.max_ns)]
}

fn endpoint_rows(page: &mut Page<'_>, report: &Report, at: &EndpointReport, columns: &Columns) {
    let mut name = term(page.look.language, &endpoint_or_others(&at.endpoint)).to_owned();
    if let Some(software) = at.software.as_deref().map(units::printable)
        && columns_of(&name) + 2 + columns_of(&software) <= columns.name
    {
        name += &format!("  {software}");
    }
    percentiles(page, &name, columns, Some(at.exchanges), &at.latency);
    outcomes(page, at);
    let alone = report.endpoints.len() == 1;
    let here = predicted(report, at.exchanges)
        .filter(|finding| alone || server(finding) == &at.endpoint)
        .filter(|finding| alone || finding.affected.of_exchanges < report.totals.exchanges);
    without_rows(page, &here.collect::<Vec<_>>(), columns);
    let kinds = at.kinds.iter().filter(|kind| !kind.kind.is_empty());
    for kind in kinds.take(KINDS_MAX) {
        let name = format!("  {}", units::printable(&kind.kind));
        percentiles(page, &name, columns, Some(kind.exchanges), &kind.latency);
    }
}

/// Number of error codes shown for an endpoint.
const CODES_MAX: usize = 4;

/// Writes how many exchanges of an endpoint had no complete answer, and how many an error.
fn outcomes(page: &mut Page<'_>, at: &EndpointReport) {
    let (whole, language) = (at.exchanges, page.look.language);
    let incomplete = at.outcomes.incomplete();
    if incomplete > 0 {
        let kinds = OutcomeKind::ALL.iter().filter_map(|&kind| {
            let count = at.outcomes.of(kind);
            let words = incomplete_words(kind).filter(|_| count > 0)?;
            Some(say!(language, words, count))
        });
        let kinds = kinds.collect::<Vec<_>>().join(language.glue().comma);
        let text = say!(language, "incomplete_here", count = incomplete, whole, kinds);
        page.paragraph(None, &text, 4);
    }
    let unclear = at.outcomes.of(OutcomeKind::Unclear);
    let apart = at.outcomes.total().saturating_sub(at.exchanges);
    if unclear > apart {
        let text = say!(language, "unclear_here", count = unclear - apart, whole);
        page.paragraph(None, &text, 4);
    }
    if apart > 0 {
        page.paragraph(None, &say!(language, "unclear_more", count = apart), 4);
    }
    let unseen = at.outcomes.of(OutcomeKind::Unseen);
    if unseen > 0 {
        page.paragraph(None, &say!(language, "unseen_here", count = unseen, whole), 4);
    }
    let errors = errors(&at.outcomes, at.exchanges, "errors_here", language);
    let lines = [credentials(&at.outcomes, at.exchanges, language), errors];
    for line in lines.iter().flatten() {
        page.paragraph(None, line, 4);
    }
}

/// Returns how many of `exchanges` were answered with a request for credentials, and the codes; `None`
/// if none was.
fn credentials(outcomes: &Outcomes, exchanges: u64, language: Language) -> Option<String> {
    let codes = codes(outcomes, true);
    let count = codes.iter().map(|(_, count)| count).sum();
    counted_codes(count, exchanges, ("credentials_here", language), &codes)
}

/// Says in the sentence `id` how many of `exchanges` ended with an error, and the codes; `None` if none did.
pub(super) fn errors(
    outcomes: &Outcomes,
    exchanges: u64,
    id: &str,
    language: Language,
) -> Option<String> {
    let count = errors_of(outcomes);
    counted_codes(count, exchanges, (id, language), &codes(outcomes, false))
}

/// Number of exchanges that ended with an error other than a request for credentials.
pub(super) fn errors_of(outcomes: &Outcomes) -> u64 {
    let challenges = codes(outcomes, true).iter().map(|(_, count)| count).sum();
    outcomes.of(OutcomeKind::Error).saturating_sub(challenges)
}

/// Returns the codes that ask for credentials, or the others.
fn codes(outcomes: &Outcomes, challenges: bool) -> Vec<(ErrorCode, u64)> {
    let is_asked = |(code, _): &(ErrorCode, u64)| code.is_challenge() == challenges;
    outcomes.codes().into_iter().filter(is_asked).collect()
}

fn counted_codes(
    count: u64,
    exchanges: u64,
    (id, language): (&str, Language),
    codes: &[(ErrorCode, u64)],
) -> Option<String> {
    let shown = codes.iter().take(CODES_MAX);
    let shown = shown.map(|(code, count)| format!("{code} × {}", units::count(*count)));
    let more = (codes.len() > CODES_MAX).then(|| "…".to_owned());
    let codes = shown.chain(more).collect::<Vec<_>>().join(language.glue().comma);
    (count > 0).then(|| say!(language, id, count, whole = exchanges, codes))
}

/// Returns the id of the words for an outcome without a complete answer.
fn incomplete_words(kind: OutcomeKind) -> Option<&'static str> {
    match kind {
        OutcomeKind::Answered | OutcomeKind::Error => None,
        OutcomeKind::Unclear | OutcomeKind::Unseen => None,
        OutcomeKind::CutShort => Some("outcome_cut_short"),
        OutcomeKind::Closed => Some("outcome_closed"),
        OutcomeKind::Reset => Some("outcome_reset"),
        OutcomeKind::Unacknowledged => Some("outcome_unacknowledged"),
        OutcomeKind::Open => Some("outcome_open"),
    }
}

/// Returns the faults whose prediction covers this number of exchanges.
fn predicted(report: &Report, exchanges: u64) -> impl Iterator<Item = &Finding> {
    let faults = report.findings.iter().filter(|finding| is_predicted(finding));
    faults.filter(move |finding| finding.affected.of_exchanges == exchanges)
}

/// Returns the server of a finding's packets.
fn server(finding: &Finding) -> &Endpoint {
    finding.evidence_flow.as_ref().map_or(&finding.culprit.endpoint, |(_, server)| server)
}

/// Writes the latency predicted without each of `faults`, which are of the same exchanges.
fn without_rows(page: &mut Page<'_>, faults: &[&Finding], columns: &Columns) {
    for finding in faults {
        let language = page.look.language;
        let name = format!("  {}", say!(language, "without", cause = finding.cause.id()));
        let of = culprit_of_several(finding, faults, language);
        let name = cut(&name, columns.name.saturating_sub(columns_of(&of))) + &of;
        row(page, &name, columns, "", left_over_times(finding));
    }
}

/// Returns the words that tell `finding` from others of `faults` with its cause: the role of the
/// culprit, or its address if another has that role too. Empty if there is no other.
fn culprit_of_several(finding: &Finding, faults: &[&Finding], language: Language) -> String {
    let with_cause = || faults.iter().filter(|other| other.cause == finding.cause);
    let with_role = with_cause().filter(|other| other.culprit.role == finding.culprit.role);
    match (with_cause().count(), with_role.count()) {
        (0 | 1, _) => String::new(),
        (_, 0 | 1) => format!(" ({})", term(language, finding.culprit.role.id())),
        _ => format!(" ({})", units::endpoint(&finding.culprit.endpoint)),
    }
}

fn percentiles(page: &mut Page<'_>, name: &str, columns: &Columns, of: Option<u64>, at: &Latency) {
    let exchanges = of.map(units::count).unwrap_or_default();
    row(page, name, columns, &exchanges, shown_times(*at));
}

fn row(page: &mut Page<'_>, name: &str, columns: &Columns, exchanges: &str, times: [String; 4]) {
    let times = columns.shown(times);
    let name = left(&cut(name, columns.name), columns.name);
    page.line(&format!("  {name}{}{times}", right(exchanges, 11)));
}
