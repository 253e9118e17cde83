//! The path to the server: its hops, and where latency is added.

use super::args::Doctor;
use super::steps::Steps;
use crate::probe::raw_sockets;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};
use tcpwhy_core::model::units::{counted, duration};
use tcpwhy_privileged::Helper;
use tcpwhy_probe::budget::{Budget, Limits};
use tcpwhy_probe::path::{PathEnd, Plan, Report, probe};
use tcpwhy_probe::target::Ask;
use tcpwhy_probe::tls::TlsOptions;
use tcpwhy_probe::{Scheme, Target};

/// Time limit for finding the hops.
const LASTS: Duration = Duration::from_millis(2_500);

/// Probes for each hop. Two are enough, since only the path is of interest here.
const COUNT: u32 = 2;

/// Returns the most that is sent to find the hops.
pub fn limits(wanted: &Doctor) -> Limits {
    if wanted.no_path { Limits::NOTHING } else { plan(Budget::none()).limits() }
}

fn plan(budget: Budget) -> Plan {
    Plan {
        count: COUNT,
        interval: Duration::from_millis(10),
        wait: Duration::from_millis(400),
        method: None,
        hops_max: 20,
        hops: true,
        mtu: false,
        request: false,
        tls: TlsOptions::default(),
        family: None,
        budget,
    }
}

/// Finds the hops to `server`.
pub fn examine(
    wanted: &Doctor,
    server: SocketAddr,
    helper: &Helper,
    budget: Budget,
    steps: &mut Steps,
) {
    if wanted.no_path {
        return steps.skipped("path", "--no-path");
    }
    if server.ip().is_loopback() {
        return steps.skipped("path", "the server is this host");
    }
    let began = Instant::now();
    let plan = plan(budget);
    let target = Target {
        scheme: Scheme::Tcp,
        host: server.ip().to_string(),
        port: server.port(),
        path: "/".to_owned(),
        ask: Ask::Resource,
    };
    let stop = AtomicBool::new(false);
    let (over, is_over) = channel::<()>();
    let stopped = &stop;
    let found = thread::scope(|scope| {
        scope.spawn(move || {
            if let Err(RecvTimeoutError::Timeout) = is_over.recv_timeout(LASTS) {
                stopped.store(true, Ordering::Relaxed);
            }
        });
        let found = probe(&target, &plan, &raw_sockets(helper), stopped, &mut |_, _| ());
        drop(over);
        found
    });
    match found {
        Ok(report) => steps.done("path", began, words(&report)),
        Err(error) => steps.failed("path", began, error.to_string()),
    }
}

/// Describes the path in one line.
fn words(report: &Report) -> String {
    let Some(path) = &report.path else {
        let why = report.skipped.iter().find(|it| it.what == "hops");
        return why.map_or_else(|| "no hop was found".to_owned(), |it| it.why.clone());
    };
    let end = match &path.end {
        PathEnd::Reached => String::new(),
        PathEnd::Silent => ", and what lies behind answers nothing".to_owned(),
        PathEnd::Unreachable { by, .. } => {
            let by = by.map_or_else(String::new, |by| format!(" by {by}"));
            format!(", and there packets are refused{by}")
        }
    };
    let added = report.step.as_ref().map_or_else(String::new, |step| {
        let at = step.address.map_or_else(String::new, |address| format!(" ({address})"));
        format!("; hop {}{at} adds {}", step.hop, duration(step.added_ns))
    });
    let loss = path.loses_from.map_or_else(String::new, |hop| format!("; loss from hop {hop} on"));
    format!("{}{end}{added}{loss}", counted(path.hops.len() as u64, "hop", "hops"))
}
