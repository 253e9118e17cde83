//! An audit of a running host, ordered by what explains a symptom measured now: counters that grow
//! during a short sample, queues and tables at their limit, or the findings of a tcpwhy report.
//!
//! ```text
//! read (/proc, /sys, netlink, configuration) ─► Facts ─► judge ─► Entry, the most direct first
//! ```

#![cfg(target_os = "linux")]
#![forbid(unsafe_code)]

pub mod database;
pub mod entry;
pub mod facts;
pub mod hsperfdata;
pub mod judge;
pub mod jvm;
pub mod nginx;
pub mod place;
pub mod read;
pub mod report;
pub mod rules;
pub mod sockets;
pub mod sysctl;
pub mod work;

use std::time::Duration;

use tcpwhy_live::error::LiveError;

pub use entry::{Change, Entry, Evidence, Layer};
pub use facts::Unread;
pub use place::AuditedNamespace;
pub use report::{Finding, ReportError, Whose};

/// Result of an audit.
#[derive(Debug, Clone)]
pub struct Audit {
    /// Length of the sample, ns.
    pub sample_ns: u64,
    /// Entries: first those that explain a present symptom, then the rest.
    pub entries: Vec<Entry>,
    /// Findings of the report that was passed.
    pub findings: Vec<Finding>,
    /// Facts that could not be read.
    pub unread: Vec<Unread>,
}

/// Error of an audit.
#[derive(Debug, thiserror::Error)]
pub enum AuditError {
    /// The host could not be read.
    #[error("{0}")]
    Live(#[from] LiveError),
    /// The report could not be used.
    #[error("{0}")]
    Report(#[from] ReportError),
}

/// Audits a place over a sample of this length, with a report if one is passed.
///
/// # Errors The place does not exist or may not be entered, the kernel lists no sockets, or the
/// report is invalid.
pub fn audit(
    place: &AuditedNamespace,
    sample: Duration,
    report: Option<&[u8]>,
) -> Result<Audit, AuditError> {
    if let Some(text) = report {
        // Invalid reports are refused before the sample is taken.
        report::parse(text, &[], &[])?;
    }
    let mut facts = read::gather(place, sample)?;
    if let Some(text) = report {
        let (addresses, nameservers) = read::ends(&facts);
        facts.findings = report::parse(text, addresses, nameservers)?;
    }
    let entries = judge::judge(&facts);
    let mut findings = facts.findings;
    for finding in &mut findings {
        let explains = |entry: &Entry| {
            entry.evidence.iter().any(|it| {
                matches!(it, Evidence::Report { finding: number, .. } if *number == finding.finding)
            })
        };
        finding.is_explained = entries.iter().any(explains);
    }
    Ok(Audit { sample_ns: facts.growth.over_ns, entries, findings, unread: facts.unread })
}
