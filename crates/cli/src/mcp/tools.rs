//! The tools: one row each.

use super::folders::Folders;
use crate::analysis::{self, Answer, Wanted};
use crate::args::{Analysing, Display, PLAIN, Spoken, parse_filter, parse_percent};
use crate::compare::{self, Compare, Side};
use crate::error::Error;
use crate::page::asked_for;
use crate::{explain, sources};
use rmcp::handler::server::common::schema_for_type;
use rmcp::model::{JsonObject, Tool, ToolAnnotations};
use rmcp::schemars::{self, JsonSchema};
use serde::Deserialize;
use serde_json::Value;
use std::fmt::Write as _;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use tcpwhy_core::filter::{Filter, Pick};
use tcpwhy_core::model::NothingToJudge;
use tcpwhy_core::report::{Look, comparison, json, text};

/// Number of captures that one list shows.
const LISTED_MAX: usize = 200;
/// Number of findings in one answer, if the assistant does not say.
const FINDINGS_DEFAULT: usize = 5;

/// A tool.
pub struct Row {
    /// Its name.
    pub name: &'static str,
    /// Description for the assistant.
    description: &'static str,
    /// The JSON schema of its arguments.
    schema: fn() -> Arc<JsonObject>,
    /// Does the work and returns the answer.
    pub work: fn(&Folders, Value, &AtomicBool) -> Result<String, Error>,
}

impl Row {
    /// Returns the tool as the protocol describes it.
    pub fn described(&self) -> Tool {
        let mut hints = ToolAnnotations::default();
        (hints.read_only_hint, hints.open_world_hint) = (Some(true), Some(false));
        Tool::new(self.name, self.description, (self.schema)()).with_annotations(hints)
    }
}

/// All tools.
pub const TOOLS: &[Row] = &[
    Row {
        name: "captures",
        description: "Lists the captures (pcap, pcapng, snoop; also gzip and zstd) that the other tools \
                      can read, with their sizes.",
        schema: schema_for_type::<Nothing>,
        work: captures,
    },
    Row {
        name: "diagnose",
        description: "Reads captures and says why requests were slow or failed: the answer in one \
                      sentence, each cause with its cost, evidence, culprit and fix, what was ruled out, \
                      and latency by server. Files of one capture, or the same traffic captured at client \
                      and server, go together.",
        schema: schema_for_type::<Diagnose>,
        work: diagnose,
    },
    Row {
        name: "findings",
        description: "The findings of a diagnosis as JSON: cause, culprit, lost nanoseconds, share, \
                      confidence, latency now and without the cause, facts, evidence with frame numbers, \
                      fixes. Most costly ones first; `first` and `count` choose a part.",
        schema: schema_for_type::<Findings>,
        work: findings,
    },
    Row {
        name: "evidence",
        description: "Draws the packets of one connection or exchange with the owner of each silence, or, \
                      with `frame`, explains how the silence at this frame was judged. Reports name the \
                      connection and exchange of a finding in their `draw` command.",
        schema: schema_for_type::<Evidence>,
        work: evidence,
    },
    Row {
        name: "explain",
        description: "The manual of a cause: what happens, how it shows, what looks alike, how to fix and \
                      verify it. Without `cause`, the list of all causes.",
        schema: schema_for_type::<Explain>,
        work: explained,
    },
    Row {
        name: "compare",
        description: "Compares two captures, or JSON reports of tcpwhy, before and after a change: \
                      whether latency and causes became better, with the strength of the evidence.",
        schema: schema_for_type::<Compared>,
        work: compared,
    },
];

/// Returns the tool with this name.
pub fn named(name: &str) -> Option<&'static Row> {
    TOOLS.iter().find(|row| row.name == name)
}

#[derive(Deserialize, JsonSchema)]
#[schemars(crate = "schemars")]
#[serde(deny_unknown_fields)]
struct Nothing {}

#[derive(Deserialize, JsonSchema)]
#[schemars(crate = "schemars")]
#[serde(deny_unknown_fields)]
struct Diagnose {
    /// Paths of the captures, as `captures` lists them.
    files: Vec<String>,
    /// Only a part: terms `host`, `port`, `after`, `before`, `cause`, joined by `and`, such as
    /// "host 10.0.0.1 and port 80 and +2s..+5s".
    filter: Option<String>,
    /// `true` for all findings, servers and connections, not only the first of them.
    #[serde(default)]
    all: bool,
}

#[derive(Deserialize, JsonSchema)]
#[schemars(crate = "schemars")]
#[serde(deny_unknown_fields)]
struct Findings {
    /// Paths of the captures, as `captures` lists them.
    files: Vec<String>,
    /// Only a part, as for `diagnose`.
    filter: Option<String>,
    /// Number of the first finding wanted, from 1 (the default).
    first: Option<usize>,
    /// Number of findings wanted, by default 5.
    count: Option<usize>,
}

#[derive(Deserialize, JsonSchema)]
#[schemars(crate = "schemars")]
#[serde(deny_unknown_fields)]
struct Evidence {
    /// Paths of the captures, as `captures` lists them.
    files: Vec<String>,
    /// The connection: its number in the report, or one of its ends as ADDRESS:PORT.
    connection: Option<String>,
    /// The exchange by its number, from 1: of the connection, or else of the one that lost most time.
    exchange: Option<u64>,
    /// A frame's number, from 1: explains the silence that the frame ended or lies in.
    frame: Option<u64>,
}

#[derive(Deserialize, JsonSchema)]
#[schemars(crate = "schemars")]
#[serde(deny_unknown_fields)]
struct Explain {
    /// The id of a cause, such as "nagle_delayed_ack".
    cause: Option<String>,
}

#[derive(Deserialize, JsonSchema)]
#[schemars(crate = "schemars")]
#[serde(deny_unknown_fields)]
struct Compared {
    /// Path of the capture or report before the change.
    before: String,
    /// Path of the capture or report after the change.
    after: String,
    /// Only a part of both, as for `diagnose`.
    filter: Option<String>,
}

fn arguments<'de, T: Deserialize<'de>>(given: Value) -> Result<T, Error> {
    T::deserialize(given).map_err(Error::Arguments)
}

fn captures(folders: &Folders, given: Value, _: &AtomicBool) -> Result<String, Error> {
    let Nothing {} = arguments(given)?;
    let (captures, more) = folders.captures();
    let mut text = String::new();
    for one in captures.iter().take(LISTED_MAX) {
        let _ = writeln!(text, "{:>12} bytes  {}", one.bytes, one.path.display());
    }
    match captures.len() {
        0 => text.push_str("no captures in the folders\n"),
        all if all > LISTED_MAX => {
            let _ = writeln!(text, "… {} more, not listed", all - LISTED_MAX);
        }
        _ => {}
    }
    if more {
        text.push_str(
            "… the folders hold more files than are looked at; name them by their path\n",
        );
    }
    Ok(text)
}

fn diagnose(folders: &Folders, given: Value, interrupted: &AtomicBool) -> Result<String, Error> {
    let Diagnose { files, filter, all } = arguments(given)?;
    let analysing = analysing(filter)?;
    let mut wanted = Wanted::of(&analysing);
    wanted.options.all = all;
    let report = analysed(folders, &files, (wanted, &analysing), interrupted)?.report;
    Ok(text::render(&report, &Look { all, ..Look::default() }))
}

fn findings(folders: &Folders, given: Value, interrupted: &AtomicBool) -> Result<String, Error> {
    let Findings { files, filter, first, count } = arguments(given)?;
    let analysing = analysing(filter)?;
    let asked = (Wanted::of(&analysing), &analysing);
    let report = analysed(folders, &files, asked, interrupted)?.report;
    let mut whole: Value =
        serde_json::from_str(&json::render(&report, env!("CARGO_PKG_VERSION"))?)?;
    let mut findings = whole["findings"].take();
    let all = findings.as_array_mut().map(std::mem::take).unwrap_or_default();
    let first = first.unwrap_or(1).max(1);
    let part: Vec<_> =
        all.iter().skip(first - 1).take(count.unwrap_or(FINDINGS_DEFAULT)).cloned().collect();
    let answer = serde_json::json!({
        "answer": whole["answer"],
        "findings": part,
        "first": first,
        "of": all.len(),
    });
    Ok(serde_json::to_string_pretty(&answer)?)
}

fn evidence(folders: &Folders, given: Value, interrupted: &AtomicBool) -> Result<String, Error> {
    let Evidence { files, connection, exchange, frame } = arguments(given)?;
    let pick =
        |text: String| Pick::parse(&text).map_err(|error| Error::Argument(error.to_string()));
    let connection = connection.map(pick).transpose()?;
    // Without a choice, the exchange that lost most time.
    let chosen = connection.is_some() || frame.is_some();
    let exchange = exchange.or((!chosen).then_some(1));
    let why = frame.map(Some);
    let analysing = Analysing::default();
    let wanted = Wanted { connection, exchange, why, ..Wanted::of(&analysing) };
    let Answer { report, ladder, why, note, .. } =
        analysed(folders, &files, (wanted, &analysing), interrupted)?;
    let look = Look::default();
    let note = note.map(|note| note + "\n\n").unwrap_or_default();
    let drawn = ladder.map(|ladder| ladder.render(&look)).unwrap_or_default();
    let explained = why.map(|why| why.render(&report, &look)).unwrap_or_default();
    Ok(note + &drawn + &explained)
}

fn explained(_: &Folders, given: Value, _: &AtomicBool) -> Result<String, Error> {
    let Explain { cause } = arguments(given)?;
    let name = cause.as_deref().unwrap_or("list");
    explain::named_manual(name, &Look::default()).ok_or_else(|| {
        Error::Argument(format!("there is no cause `{name}`; without `cause`, all are listed"))
    })
}

fn compared(folders: &Folders, given: Value, interrupted: &AtomicBool) -> Result<String, Error> {
    let Compared { before, after, filter } = arguments(given)?;
    let asked = Compare {
        before: folders.file(&before)?,
        after: folders.file(&after)?,
        json: false,
        output: None,
        min_change: parse_percent(compare::MIN_CHANGE_PERCENT).map_err(Error::Argument)?,
        vantage: Side::Client,
        all: false,
        analysing: analysing(filter)?,
        display: Display { no_progress: true, ..PLAIN },
        spoken: Spoken::default(),
    };
    let (compared, _) = compare::compared(&asked, None, interrupted)?;
    Ok(comparison::render(&compared, &Look::default()))
}

/// Analyses files in the folders.
fn analysed(
    folders: &Folders,
    files: &[String],
    (wanted, analysing): (Wanted, &Analysing),
    interrupted: &AtomicBool,
) -> Result<Answer, Error> {
    if files.is_empty() {
        return Err(Error::Argument("`files` names no capture; `captures` lists them".into()));
    }
    let paths: Vec<PathBuf> =
        files.iter().map(|name| folders.file(name)).collect::<Result<_, _>>()?;
    let open = || sources::open(&paths);
    let mut answer = analysis::analyse(open()?, &open, wanted, |_| {}, interrupted)?;
    answer.report.asked = asked_for(&paths, analysing);
    match NothingToJudge::of(&answer.report) {
        Some(nothing) => Err(nothing.into()),
        None => Ok(answer),
    }
}

/// Returns the options of an analysis with the filter that the assistant states.
fn analysing(filter: Option<String>) -> Result<Analysing, Error> {
    let filter: Option<Filter> = filter
        .map(|text| parse_filter(&text).map_err(|error| Error::Argument(error.to_string())))
        .transpose()?;
    let mut analysing = Analysing::default();
    analysing.reporting.filter = filter;
    Ok(analysing)
}
