//! `tcpwhy anonymize`: copies a capture with pseudonyms and without payload; the copy gives the
//! same diagnosis.

use crate::args::Display;
use crate::error::Error;
use crate::written::Written;
use crate::{output, sources, terminal};
use clap::Args;
use serde_json::json;
use std::fs::File;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::slice;
use tcpwhy_core::anonymize::{Anonymizer, Names};
use tcpwhy_core::capture::{
    Encoder, Frame, LinkType, Open, OpenAgain, Problem, each_frame, pcap_frame, pcap_header,
};
use tcpwhy_core::model::units;
use tcpwhy_core::report::Page;

pub const EXAMPLES: &str = "\
Examples:
  tcpwhy anonymize slow.pcap -o harmless.pcap
  tcpwhy anonymize before.pcap -o b.pcap --key-file key     the same pseudonyms in both: head -c 16 /dev/urandom > key
  tcpwhy harmless.pcap                                      the same diagnosis

Addresses, host names and paths become pseudonyms that keep prefixes and lengths; payload
becomes dots, except for what shows where messages begin and end and of which kind they are.
Ports, times, lengths and sequence numbers are kept.

Exit status: 0 written, 2 error.";

/// Length of a key, bytes.
const KEY_BYTES: usize = 16;

#[derive(Debug, Args)]
pub struct Anonymize {
    /// The capture (pcap, pcapng, snoop; also gzip or zstd)
    #[arg(value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    pub file: PathBuf,

    /// The file to write: pcapng if its name ends so, else pcap; `-` for standard output
    #[arg(short, long, value_name = "OUT.pcap", value_hint = clap::ValueHint::FilePath)]
    pub output: PathBuf,

    /// Take the key from the first 16 bytes of a file, so that other captures get the same
    /// pseudonyms; keep the file secret
    #[arg(long, value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    pub key_file: Option<PathBuf>,

    /// Use this number as the key: anybody who knows it can undo the pseudonyms
    #[arg(long, value_name = "NUMBER", conflicts_with = "key_file")]
    pub seed: Option<u64>,

    /// Print what was written as JSON
    #[arg(long)]
    pub json: bool,

    #[command(flatten)]
    pub display: Display,
}

/// Reads the capture twice and writes the copy once.
///
/// # Errors [`Error`] if the capture cannot be read or the copy cannot be written.
pub fn run(asked: &Anonymize) -> Result<ExitCode, Error> {
    let names = Names::new(key(asked)?);
    let open = || -> Result<Box<OpenAgain>, Error> {
        let source = sources::open(slice::from_ref(&asked.file))?.pop();
        match source.map(|source| source.open) {
            Some(Open::Again(open)) => Ok(open),
            _ => Err(Error::Once { path: asked.file.display().to_string() }),
        }
    };
    let (first, second) = (open()?, open()?);
    let mut written = Written::begin(&asked.output, slice::from_ref(&asked.file))?;
    terminal::interruptible();
    let mut anonymizer = Anonymizer::new(names);
    let read = |open: &OpenAgain| open();
    let learned = read(&first).and_then(|input| {
        each_frame(input, &mut |frame| {
            anonymizer.learn(frame);
            interruption()
        })
    });
    learned.map_err(|source| written.blame(&asked.file, source))?;
    anonymizer.rewind();
    let mut copy = Copy::new(&asked.output, &mut written);
    let mut bytes = Vec::new();
    let copied = read(&second).and_then(|input| {
        each_frame(input, &mut |frame| {
            anonymizer.change(frame, &mut bytes);
            copy.add(&Frame { bytes: &bytes, ..*frame })?;
            interruption()
        })
    });
    let copied = copied.and_then(|problem| copy.finish().map(|()| problem));
    let problem = copied.map_err(|source| written.blame(&asked.file, source))?;
    if let Some(problem) = problem.as_ref().filter(|_| anonymizer.counts().frames == 0) {
        return Err(written.blame(&asked.file, io::Error::other(problem.to_string())));
    }
    let aside = written.is_standard_output();
    written.finish()?;
    output::print_beside(&said(asked, &anonymizer, problem)?, aside)?;
    Ok(ExitCode::SUCCESS)
}

fn interruption() -> io::Result<()> {
    match terminal::is_interrupted() {
        true => Err(io::ErrorKind::Interrupted.into()),
        false => Ok(()),
    }
}

fn key(asked: &Anonymize) -> Result<[u8; KEY_BYTES], Error> {
    let mut key = [0; KEY_BYTES];
    if let Some(seed) = asked.seed {
        key[..size_of::<u64>()].copy_from_slice(&seed.to_le_bytes());
        return Ok(key);
    }
    let path = asked.key_file.as_deref().unwrap_or(Path::new("/dev/urandom"));
    let read = File::open(path).and_then(|mut file| file.read_exact(&mut key));
    read.map_err(|source| Error::Key { path: path.display().to_string(), source })?;
    Ok(key)
}

/// The anonymized copy while it is written.
struct Copy<'w> {
    is_pcapng: bool,
    link: Option<LinkType>,
    encoder: Encoder,
    out: &'w mut Written,
}

impl<'w> Copy<'w> {
    fn new(path: &Path, out: &'w mut Written) -> Self {
        let is_pcapng = path.extension().is_some_and(|it| it.eq_ignore_ascii_case("pcapng"));
        Self { is_pcapng, link: None, encoder: Encoder::default(), out }
    }

    fn add(&mut self, frame: &Frame<'_>) -> io::Result<()> {
        if self.link != Some(frame.link) {
            match (self.is_pcapng, self.link) {
                // Another pcapng section: each section has one interface.
                (true, _) => self.encoder.header(frame.link, "", "anonymized by tcpwhy"),
                (false, None) => pcap_header(frame.link, &mut self.encoder.bytes),
                (false, Some(_)) => {
                    let text = "pcap has room for one link type, the capture has more: let the name end in .pcapng";
                    return Err(io::Error::other(text));
                }
            }
            self.link = Some(frame.link);
        }
        match self.is_pcapng {
            true => self.encoder.frame(frame, &[]),
            false => pcap_frame(frame, &mut self.encoder.bytes),
        }
        self.finish()
    }

    /// Writes the encoded bytes that are pending.
    fn finish(&mut self) -> io::Result<()> {
        self.out.write_all(&self.encoder.bytes)?;
        self.encoder.bytes.clear();
        Ok(())
    }
}

fn said(asked: &Anonymize, done: &Anonymizer, problem: Option<Problem>) -> Result<String, Error> {
    let counts = done.counts();
    let problem = problem.map(|problem| problem.to_string());
    if asked.json {
        let value = json!({
            "output": asked.output.display().to_string(),
            "frames": counts.frames,
            "frames_not_understood": counts.not_understood,
            "http2_headers_filled": counts.filled_headers,
            "problem": problem,
        });
        return Ok(serde_json::to_string_pretty(&value)? + "\n");
    }
    let look = terminal::look(&asked.display, false);
    let mut page = Page::new(&look);
    let frames = units::counted(counts.frames, "frame", "frames");
    page.paragraph(None, &format!("{}: {frames} anonymized", asked.output.display()), 0);
    if counts.not_understood > 0 {
        let some = units::counted(counts.not_understood, "frame", "frames");
        let text = format!(
            "{some} of unknown protocols or link types, or damaged: zeros stand for what they carried."
        );
        page.paragraph(None, &text, 0);
    }
    if counts.filled_headers > 0 {
        let text = "HTTP/2 headers are filled: where they announce gRPC or streams of events, the diagnosis may differ.";
        page.paragraph(None, text, 0);
    }
    if let Some(problem) = problem {
        page.paragraph(None, &format!("{}: {problem}", asked.file.display()), 0);
    }
    Ok(page.finish())
}
