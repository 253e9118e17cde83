//! Runs a case whose fault is treated while its load runs, with the same servers, clients and
//! connections before and after.
//!
//! The load is as long as three usual ones or longer. The treatment begins when the first of them
//! would end. Captures and requests until then go to `faulty/`, those after it was in effect to
//! `healthy/`, each with labels, as if they were the run of a twin.

use std::fs::File;
use std::io::{self, BufReader, BufWriter, Read, Write};
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use tcpwhy_live::folder::Folder;

use crate::case::{Case, Ran};
use crate::error::{Doing, LabError};
use crate::labels::{Class, Labels, Role, Variant};
use crate::params::Params;
use crate::run::{CaseResult, RunOptions, build, labels, open, params, part, write};
use crate::stage::Stage;
use crate::sys;
use crate::{cleanup, dns};

/// Length of the load in usual loads. The larger values are used if the load ends before a
/// treatment is in effect.
const LOADS: [u64; 3] = [3, 15, 75];
/// Name of the directory with the captures of the whole load.
const WHOLE: &str = "whole";
/// Largest delay between the begin of the load and its first request.
const LATE: Duration = Duration::from_millis(100);

/// Values of the stage that a treatment needs.
#[derive(Debug, Clone)]
pub struct Ends {
    client: String,
    server: String,
    dir: PathBuf,
    resolver: IpAddr,
}

impl Ends {
    fn of(stage: &Stage) -> Ends {
        Ends {
            client: stage.client.name().to_owned(),
            server: stage.server.name().to_owned(),
            dir: stage.dir().to_owned(),
            resolver: dns::resolver_address(stage.server_addr, 0),
        }
    }

    /// Returns the network namespace of an end.
    pub fn netns(&self, at: Role) -> &str {
        if at == Role::Client { &self.client } else { &self.server }
    }

    /// Returns an argument of a treatment with its placeholders filled in.
    pub fn fill(&self, word: &str) -> String {
        let resolv_conf = self.dir.join("resolv.conf").display().to_string();
        word.replace("{resolv_conf}", &resolv_conf)
            .replace("{resolver}", &self.resolver.to_string())
    }
}

/// Returns the duration of a run's load, from its first request to the end of its last one.
pub fn load_time(labels: &Labels) -> Duration {
    let start_ns = labels.requests.iter().map(|r| r.start_ns).min().unwrap_or(0);
    let end_ns = labels.requests.iter().map(|r| r.end_ns).max().unwrap_or(0);
    Duration::from_nanos(end_ns.saturating_sub(start_ns))
}

/// Runs a case with its fault and calls `treat` after the time `faulty` of its load. The value that
/// it returns is dropped after the load, while the stage still exists; this undoes the treatment.
///
/// # Errors A step fails, or no request came before the treatment, or none after it.
pub fn run_treated<G: Send>(
    case: &Case,
    options: &RunOptions,
    faulty: Duration,
    treat: impl Fn(&Ends) -> Result<G, LabError> + Sync,
) -> Result<CaseResult, LabError> {
    let params = params(case, options)?;
    let name = format!("{}-{}-treated", case.name, options.seed);
    let dir = options.out.join(&name);
    cleanup::remember_dir(dir.clone());
    let out = open(&options.out, &name)?;
    let run = Run { case, params, seed: options.seed, out: &out };
    let mut result = Err(never("it has no load"));
    for loads in LOADS {
        result = run.run(loads, faulty + faulty / 10 + LATE, &treat);
        if !matches!(result, Err(LabError::NotReproduced(_))) {
            break;
        }
    }
    match &result {
        Err(_) => cleanup::remove_dir(&dir),
        Ok(_) => cleanup::forget_dir(&dir),
    }
    result
}

struct Run<'a> {
    case: &'a Case,
    params: Params,
    seed: u64,
    out: &'a Folder,
}

/// Times at which the treatment began and at which it was in effect, on the captures' clock.
#[derive(Debug, Clone, Copy)]
struct Treated {
    began_ns: u64,
    done_ns: u64,
}

impl Run<'_> {
    fn run<G: Send>(
        &self,
        loads: u64,
        faulty: Duration,
        treat: &(impl Fn(&Ends) -> Result<G, LabError> + Sync),
    ) -> Result<CaseResult, LabError> {
        let whole = self.out.folder(WHOLE).doing("keep captures")?;
        let load = self.params.clone().with_requests_times(loads);
        let mut stage = build(self.case, &load, self.seed, Variant::Faulty, Some(whole))?;
        let (load_begins, begun) = mpsc::channel();
        stage.load_begins = Some(load_begins);
        let (ran, treated) = thread::scope(|scope| {
            let ends = Ends::of(&stage);
            let treating = scope.spawn(move || {
                begun.recv().map_err(|_| never("its load never began"))?;
                thread::sleep(faulty);
                let began_ns = sys::realtime_ns();
                let guard = treat(&ends)?;
                Ok((Treated { began_ns, done_ns: sys::realtime_ns() }, guard))
            });
            let acted = (self.case.act)(&mut stage, &load, Variant::Faulty);
            // Otherwise a treatment would wait for a load that never begins.
            stage.load_begins = None;
            let joined = treating.join();
            let treated = joined.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            let observed = acted?;
            let (times, guard) = treated?;
            let report = stage.finish()?;
            drop(guard);
            Ok::<_, LabError>((Ran { observed, stage: report }, times))
        })?;
        self.told(&ran, treated)
    }

    fn told(&self, ran: &Ran, treated: Treated) -> Result<CaseResult, LabError> {
        let is_before =
            |start_ns: u64, end_ns: u64| start_ns <= end_ns && end_ns <= treated.began_ns;
        let is_after = |start_ns: u64, _: u64| start_ns >= treated.done_ns;
        let before = with_requests(ran, is_before)?;
        let after = with_requests(ran, is_after)?;
        let whole = self.out.folder(WHOLE).doing("read the captures")?;
        let [faulty, healthy] = [Variant::Faulty, Variant::Healthy].map(|it| part(self.out, it));
        let (faulty, healthy) = (faulty?, healthy?);
        for capture in &ran.stage.captures {
            let split = || {
                split(
                    whole.read(&capture.file)?,
                    (faulty.create(&capture.file)?, treated.began_ns),
                    (healthy.create(&capture.file)?, treated.done_ns),
                )
            };
            split().doing(format!("split {}", capture.file))?;
        }
        let link = |variant| (self.case.link)(&self.params, variant, self.seed);
        let of = |variant, ran: &Ran, link| {
            labels(self.case, &self.params, self.seed, variant, ran, link)
        };
        let mut faulty = of(Variant::Faulty, &before, link(Variant::Faulty)?);
        faulty.causes = (self.case.truth)(&self.params, &before)?;
        let mut healthy = of(Variant::Healthy, &after, link(Variant::Faulty)?);
        healthy.class = Class::None;
        write(self.out, &faulty)?;
        write(self.out, &healthy)?;
        Ok(CaseResult { dir: self.out.path().to_owned(), faulty: Some(faulty), healthy })
    }
}

fn never(what: &str) -> LabError {
    LabError::NotReproduced(what.to_owned())
}

/// Returns the run with only those requests for which `is_in` holds, given their start and end.
fn with_requests(ran: &Ran, is_in: impl Fn(u64, u64) -> bool) -> Result<Ran, LabError> {
    let mut part = ran.clone();
    part.observed.loaded.requests.retain(|r| is_in(r.start_ns, r.end_ns));
    if part.observed.loaded.requests.is_empty() {
        return Err(never("its load ended before it was treated, or before any request did"));
    }
    Ok(part)
}

/// Magic number of a capture file with nanoseconds, in this machine's byte order.
const MAGIC_NANOSECONDS: u32 = 0xa1b2_3c4d;

/// Copies the packets of a capture that are before one time, and those from another time on
/// (libpcap's format: pcap-savefile(5)).
fn split(
    whole: File,
    (before, until_ns): (File, u64),
    (after, from_ns): (File, u64),
) -> io::Result<()> {
    let mut input = BufReader::new(whole);
    let (mut before, mut after) = (BufWriter::new(before), BufWriter::new(after));
    let mut head = [0; 24];
    input.read_exact(&mut head)?;
    if number(&head, 0) != MAGIC_NANOSECONDS {
        return Err(io::Error::other("tcpdump wrote another format"));
    }
    before.write_all(&head)?;
    after.write_all(&head)?;
    let mut record = [0; 16];
    while input.read_exact(&mut record).is_ok() {
        let time_ns = u64::from(number(&record, 0)) * 1_000_000_000 + u64::from(number(&record, 4));
        let mut packet = vec![0; number(&record, 8) as usize];
        input.read_exact(&mut packet)?;
        for (out, is_in) in [(&mut before, time_ns <= until_ns), (&mut after, time_ns >= from_ns)] {
            if is_in {
                out.write_all(&record)?;
                out.write_all(&packet)?;
            }
        }
    }
    before.flush()?;
    after.flush()
}

fn number(bytes: &[u8], at: usize) -> u32 {
    u32::from_ne_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}
