//! `tcpwhy report`: reads captures and writes one self-contained HTML page.

use crate::analysis::{self, Wanted};
use crate::args::{Analysing, Spoken};
use crate::error::Error;
use crate::keylog::KeyLog;
use crate::progress::Bar;
use crate::written::Written;
use crate::{nothing_left, sources, state, terminal};
use std::path::PathBuf;
use std::process::ExitCode;
#[cfg(all(feature = "program", target_os = "linux"))]
use tcpwhy_core::capture::{Block, CaptureSet, Source};
use tcpwhy_core::filter::Filter;
#[cfg(all(feature = "program", target_os = "linux"))]
use tcpwhy_core::keys::{GrowingKeys, Keyring};
use tcpwhy_core::model::{Invocation, Language, Report};
use tcpwhy_core::page;
use tcpwhy_core::picture::Picture;
#[cfg(all(feature = "program", target_os = "linux"))]
use tcpwhy_core::pipeline::{Analysis, Options};
use tcpwhy_core::state::weigh;

pub const EXAMPLES: &str = "\
Examples:
  tcpwhy report slow.pcap -o report.html
  tcpwhy report /var/captures/edge-*.pcapng.gz -o report.html
  tcpwhy report client.pcap server.pcap --filter 'port 5432' -o report.html
  tcpwhy report slow.pcap -o - | gzip >report.html.gz

The page is one file, works without a network, and shows what `tcpwhy FILE --json` says.
Exit status: 0 no fault, 1 faults found, 2 the work could not be done.";

/// Arguments of `tcpwhy report`.
#[derive(Debug, clap::Args)]
pub struct ReportPage {
    /// Captures (pcap, pcapng; also gzip or zstd)
    #[arg(value_name = "FILE", required = true, value_hint = clap::ValueHint::FilePath)]
    pub files: Vec<PathBuf>,

    /// Where to write the page; `-` for standard output
    #[arg(short, long, value_name = "HTML", value_hint = clap::ValueHint::FilePath)]
    pub output: PathBuf,

    /// Show HTTP targets literally instead of grouped by kind (`/items/7`, not `/items/{id}`)
    #[arg(long)]
    pub show_values: bool,

    #[command(flatten)]
    pub analysing: Analysing,

    /// Show no progress bar
    #[arg(long)]
    pub no_progress: bool,

    #[command(flatten)]
    pub spoken: Spoken,
}

/// Reads and analyses the captures and writes the page; the exit status says whether there are
/// faults.
///
/// # Errors [`Error`] if nothing could be read, or the page could not be written.
pub fn run(asked: &ReportPage) -> Result<ExitCode, Error> {
    let open = || sources::open(&asked.files);
    let sources = open()?;
    let state = state::of(&asked.analysing)?;
    let output = Written::begin(&asked.output, &asked.files)?;
    let interrupted = terminal::interruptible();
    let mut bar = Bar::new(!asked.no_progress);
    let wanted = wanted(asked);
    let drawn = analysis::picture(sources, &open, wanted, |at| bar.update(at), interrupted);
    drop(bar);
    let mut drawn = match drawn {
        Err(Error::Capture(_)) if terminal::is_interrupted() => return Err(Error::NothingYet),
        drawn => drawn?,
    };
    drawn.report.asked = asked_for(&asked.files, &asked.analysing);
    if let Some(state) = state {
        weigh(&mut drawn.report, &state);
    }
    nothing_left::check(&asked.analysing, &drawn.report, &open, interrupted)?;
    output.finish_with(rendered(&drawn.report, &drawn.picture, asked.spoken.lang)?.as_bytes())?;
    Ok(ExitCode::from(u8::from(crate::explain::has_faults(&drawn.report))))
}

fn rendered(
    report: &Report,
    picture: &Picture,
    language: Option<Language>,
) -> Result<String, Error> {
    let data = page::data(report, picture, env!("CARGO_PKG_VERSION"))?;
    Ok(page::render(&page::document(&[data], None, language)))
}

/// Returns the page of a capture in memory (pcapng), which is shown under `name`.
///
/// # Errors [`Error::Capture`] if it cannot be read.
#[cfg(all(feature = "program", target_os = "linux"))]
pub fn of_capture(name: &str, packets: &[u8]) -> Result<String, Error> {
    let mut capture = CaptureSet::new(vec![Source::memory(name, packets)])?;
    let mut analysis = Analysis::new(Options::default());
    analysis.run(&mut capture, &mut |_| true)?;
    of_packets(&analysis.finish(capture.inputs()), Some(packets), None)
}

/// Returns the page of an active examination, drawn from its `packets` (pcapng) if they were kept, and
/// opened with the `secrets` of its connections.
///
/// # Errors [`Error::Capture`] if the packets cannot be read.
#[cfg(all(feature = "program", target_os = "linux"))]
pub fn of_packets(
    report: &Report,
    packets: Option<&[u8]>,
    secrets: Option<&GrowingKeys>,
) -> Result<String, Error> {
    let picture = match packets {
        Some(packets) => {
            let source = Source::memory("packets.pcapng", packets);
            let keys = secrets.cloned().map(Keyring::Growing);
            let options = Options { keys, ..Options::default() };
            let mut pass = tcpwhy_core::picture::Pass::new(&options, report);
            let mut capture = CaptureSet::new(vec![source])?;
            let mut block = Block::default();
            while capture.next_block(&mut block)? {
                pass.take(&block);
            }
            pass.finish()
        }
        None => Picture::default(),
    };
    rendered(report, &picture, None)
}

fn wanted(asked: &ReportPage) -> Wanted {
    let mut wanted = Wanted::of(&asked.analysing);
    wanted.options.show_values = asked.show_values;
    wanted
}

/// Returns the command line that repeats the analysis.
pub fn asked_for(files: &[PathBuf], analysing: &Analysing) -> Invocation {
    let files = files.iter().map(|file| file.display().to_string()).collect();
    let filter = analysing.reporting.filter.as_ref();
    let mut asked = Invocation::of_captures(files, filter.map(Filter::text), analysing.vantages);
    if let Some(KeyLog { path, .. }) = &analysing.keylog {
        asked.options.extend(["--keylog".into(), path.display().to_string()]);
    }
    asked
}
