//! `tcpwhy lab score`: compares diagnoses of labelled captures with the labels and prints the
//! accuracy.

use crate::lab::error::Error;
use clap::{Args, ValueHint};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::AtomicBool;
use tcpwhy_cli::analysis::{self, Wanted};
use tcpwhy_cli::{output, sources};
use tcpwhy_core::model::{self, Cause};
use tcpwhy_core::pipeline::Options;
use tcpwhy_core::report::json;
use tcpwhy_lab::Class;
use tcpwhy_lab::score::{
    Answers, Judged, Score, Truth, find_truth, judge, read_answers, render, render_wrong,
};

/// Shown below the options in the help.
pub const NOTES: &str = "\
Answers are JSON objects, one after the other: {\"capture\": PATH, \"findings\": [{\"cause\": ID,
\"culprit\": {\"role\": ROLE}, \"lost_ns\": N}]}; reports of `tcpwhy --json` are valid answers.
docs/lab-format.md has the rules.

Exit status: 0 all bars hold, 1 one does not, 2 nothing could be judged.";

#[derive(Debug, Args)]
pub struct ScoreArgs {
    /// Where labels.json and captures are, at any depth
    #[arg(value_hint = ValueHint::DirPath)]
    pub dir: PathBuf,

    /// A tool's answers about the captures [default: tcpwhy is run]
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub answers: Option<PathBuf>,

    /// Print the score as JSON (docs/score.schema.json)
    #[arg(long)]
    pub json: bool,
}

/// Judges all captures below a directory.
///
/// # Errors There are no captures, or labels or answers cannot be read.
pub fn run(asked: &ScoreArgs) -> Result<ExitCode, Error> {
    let answers = asked.answers.as_deref().map(read).transpose()?;
    let judged = judge_below(&asked.dir, &asked.dir, answers.as_ref())?;
    let score = Score::of(&judged);
    output::print(&shown(&score, &judged, Some(&asked.dir), asked.json)?)?;
    Ok(ExitCode::from(u8::from(!score.holds())))
}

fn read(path: &Path) -> Result<Answers, Error> {
    let text = fs::read(path).map_err(|error| sources::problem(path, error))?;
    answers(&text, path)
}

pub fn answers(text: &[u8], path: &Path) -> Result<Answers, Error> {
    read_answers(text, class_of)
        .map_err(|source| Error::Answers { path: path.display().to_string(), source })
}

/// Returns the class of a cause in tcpwhy's taxonomy.
fn class_of(id: &str) -> Option<Class> {
    Cause::from_id(id).map(|cause| match cause.class() {
        model::Class::Fault => Class::Fault,
        model::Class::Cost => Class::Cost,
    })
}

/// Judges all labelled captures below `part`, by the given answers or by tcpwhy's own. They are
/// named by their paths relative to `dir`.
///
/// # Errors As for [`run`].
pub fn judge_below(
    dir: &Path,
    part: &Path,
    answers: Option<&Answers>,
) -> Result<Vec<Judged>, Error> {
    let truths = find_truth(part)?;
    if truths.is_empty() {
        return Err(Error::NoLabels { path: part.display().to_string() });
    }
    let mut judged = Vec::new();
    for (place, truth) in &truths {
        judged.extend(judge_run(dir, place, truth, answers)?);
    }
    Ok(judged)
}

/// Judges the captures of one run.
fn judge_run(
    dir: &Path,
    place: &Path,
    truth: &Truth,
    answers: Option<&Answers>,
) -> Result<Vec<Judged>, Error> {
    let judge_one = |file: &str, vantage: &str| {
        let path = place.join(file);
        let name = path.strip_prefix(dir).unwrap_or(&path);
        let own = if answers.is_none() { Some(diagnose(&path)?) } else { None };
        let answer = answers.or(own.as_ref()).and_then(|answers| answers.about(name));
        Ok(judge(truth, &name.display().to_string(), vantage, answer))
    };
    truth.captures.iter().map(|capture| judge_one(&capture.file, &capture.vantage)).collect()
}

/// Returns tcpwhy's answer on a capture. It is read from the JSON output, which another tool could
/// have written as well.
fn diagnose(path: &Path) -> Result<Answers, Error> {
    let wanted = Wanted {
        options: Options::default(),
        connection: None,
        exchange: None,
        all: false,
        threads: 1,
        vantages: Some(1),
        why: None,
        check: true,
    };
    let again = || sources::open(&[path]);
    let answer = analysis::analyse(again()?, &again, wanted, |_| {}, &AtomicBool::new(false))?;
    let report = json::render(&answer.report, env!("CARGO_PKG_VERSION"))?;
    answers(report.as_bytes(), path)
}

/// Renders the score with the wrong answers and the commands to examine them: in the captures in
/// `dir`, or in captures made again if these were not kept.
///
/// # Errors Not expected.
pub fn shown(
    score: &Score,
    judged: &[Judged],
    dir: Option<&Path>,
    json: bool,
) -> Result<String, Error> {
    if json {
        let value = serde_json::json!({
            "format": "tcpwhy-score/1",
            "holds": score.holds(),
            "score": score,
            "captures": judged,
        });
        return Ok(serde_json::to_string_pretty(&value)? + "\n");
    }
    let mut text = render(score);
    let wrong = render_wrong(judged);
    if !wrong.is_empty() {
        text += &format!("\nwrong in {} captures", wrong.len());
        text += match dir {
            Some(_) => "\n",
            None => "; `tcpwhy lab run CASE --seed SEED --out DIR` makes CASE-SEED again\n",
        };
    }
    for (capture, words) in wrong {
        text += &match dir {
            Some(dir) => format!("  tcpwhy {}\n", dir.join(capture).display()),
            None => format!("  {capture}\n"),
        };
        text += &format!("      {words}\n");
    }
    Ok(text)
}
