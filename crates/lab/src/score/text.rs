//! Text output of the score.

use std::fmt::Write;

use super::LOST_TOLERANCE;
use super::judge::{Judged, JudgedCause};
use super::lines::{Line, Score};

/// Renders the table of causes, then the checks of all captures. Pairs of figures are those at the
/// client and at the server.
pub fn render(score: &Score) -> String {
    let mut text = String::new();
    let heads = ["found", "precision", "culprit", "lost ±", "lost 10%"];
    let heads: String = heads.iter().map(|head| format!("{head:>11}")).collect();
    let _ = writeln!(text, "{:<24}{:>8}{heads}", "per cent, at client/server", "n");
    for pair in score.lines.chunks(2).chain([&score.totals[..2]]) {
        if let [client, server] = pair {
            let _ = writeln!(text, "{}", row(client, server));
        }
    }
    let _ = writeln!(
        text,
        "\n{} captures, {} healthy; {} without an answer",
        score.captures, score.healthy, score.unanswered
    );
    if score.late > 0 {
        let _ =
            writeln!(text, "{} more are left out: the host was too busy to keep time", score.late);
    }
    if let Some(unknown) = score.unknown_share {
        let _ = writeln!(text, "{:.2} % of the time is unexplained", unknown * 100.0);
    }
    let hidden: u64 = score.totals.iter().take(2).map(|line| line.hidden).sum();
    if hidden > 0 {
        let _ =
            writeln!(text, "{hidden} causes do not pass the vantage, and are not asked for there");
    }
    if score.calibration.iter().any(|bin| bin.findings > 0) {
        let _ = writeln!(text, "\n{:<24}{:>8}{:>11}", "stated confidence", "findings", "right %");
        for bin in &score.calibration {
            let share =
                bin.right_share().map_or("–".to_owned(), |it| format!("{:.1}", it * 100.0));
            let _ = writeln!(text, "{:<24}{:>8}{share:>11}", bin.range(), bin.findings);
        }
    }
    let _ = writeln!(text);
    for bar in &score.bars {
        let sign = match (bar.holds, bar.required) {
            (true, _) => "ok  ",
            (false, true) => "FAIL",
            (false, false) => "off ",
        };
        let value = bar.value.map_or("–".to_owned(), |value| format!("{:.1} %", value * 100.0));
        let _ = writeln!(text, "{sign} {:<32}{value:>9}   bar {}", bar.name, bar.limit);
    }
    text
}

fn row(client: &Line, server: &Line) -> String {
    let both = |of: &dyn Fn(&Line) -> Option<f64>| format!("{:>11}", pair(of(client), of(server)));
    let mut row = format!("{:<24}{:>10}", client.cause, counts(client, server));
    row += &both(&Line::recall);
    row += &both(&Line::precision);
    row += &both(&Line::culprit);
    row += &both(&|line| line.lost.median_error);
    row += &both(&|line| line.lost.within);
    row
}

fn counts(client: &Line, server: &Line) -> String {
    if client.labelled == server.labelled {
        client.labelled.to_string()
    } else {
        format!("{}/{}", client.labelled, server.labelled)
    }
}

fn pair(client: Option<f64>, server: Option<f64>) -> String {
    let shown = |value: Option<f64>| match value.map(|value| value * 100.0) {
        None => "–".to_owned(),
        Some(percent) if percent > 0.0 && percent < 9.95 => format!("{percent:.1}"),
        // Only a complete share is shown as 100.
        Some(percent) if percent < 100.0 => format!("{:.0}", percent.min(99.0)),
        Some(percent) => format!("{percent:.0}"),
    };
    format!("{}/{}", shown(client), shown(server))
}

/// Returns a paragraph for each capture with a wrong answer; empty if there is none.
pub fn render_wrong(judged: &[Judged]) -> Vec<(String, String)> {
    let told = judged
        .iter()
        .filter(|one| !one.late)
        .map(|one| (one.capture.clone(), wrong(one).join("; ")));
    told.filter(|(_, words)| !words.is_empty()).collect()
}

fn wrong(judged: &Judged) -> Vec<String> {
    let mut words = Vec::new();
    if !judged.answered {
        words.push("no answer".to_owned());
    }
    words.extend(judged.causes.iter().filter(|cause| !cause.hidden).filter_map(wrong_cause));
    if !judged.false_findings.is_empty() {
        words.push(format!("false: {}", judged.false_findings.join(", ")));
    }
    words.extend(judged.false_claims.iter().map(|it| format!("claims {it}")));
    if let Some(off) = judged.counterfactual.filter(|one| !one.is_right()) {
        words.push(format!(
            "p50 without it {} predicted ({} to {}{}), {} measured",
            ms(off.predicted_p50_ns),
            ms(off.least_p50_ns),
            ms(off.most_p50_ns),
            if off.is_narrow() { "" } else { ", too wide" },
            ms(off.measured_p50_ns),
        ));
    }
    if let Some(kernel) = judged.kernel.filter(|kernel| !kernel.is_consistent()) {
        words.push(format!(
            "the kernel was limited by {} for {}, found {}",
            kernel.limit,
            ms(kernel.kernel_ns),
            ms(kernel.ledger_ns)
        ));
    }
    words
}

fn wrong_cause(cause: &JudgedCause) -> Option<String> {
    let id = &cause.cause;
    if !cause.found {
        return Some(format!("{id} not found"));
    }
    if cause.culprit_right == Some(false) {
        return Some(format!("{id}: the culprit is another"));
    }
    let error = cause.lost_error().filter(|error| error.abs() > LOST_TOLERANCE)?;
    let (said, truth) = (cause.lost_ns.unwrap_or(0), cause.true_lost_ns.unwrap_or(0));
    Some(format!("{id} lost {}, {} in truth ({:+.0} %)", ms(said), ms(truth), error * 100.0))
}

fn ms(ns: u64) -> String {
    format!("{:.1} ms", ns as f64 / 1e6)
}
