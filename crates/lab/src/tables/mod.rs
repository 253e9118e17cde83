//! Tables that belong to a case: the same load under several settings, each run once without
//! captures, so that nothing but the setting costs time.

mod all;

use std::collections::BTreeMap;
use std::fmt::Write;

use serde::Serialize;

use crate::case::{Ran, drawn};
use crate::error::LabError;
use crate::find;
use crate::labels::{Latency, Variant};
use crate::params::Params;
use crate::run::uncaptured;

pub use all::TABLES;

/// Computes a time, ns, from a row's parameters.
pub type Arithmetic = fn(&Params, Variant) -> Result<u64, LabError>;

/// A table, shown with the case of this name.
#[derive(Debug, Clone, Copy)]
pub struct Table {
    /// Name of the case.
    pub case: &'static str,
    /// Description of what is compared; it also names rows that are not made by the setting of
    /// their name.
    pub about: &'static str,
    /// The settings, in the order of the rows.
    pub rows: &'static [Row],
    /// Time of all requests together, ns, as computed from the settings.
    pub expected_ns: Option<Arithmetic>,
}

/// One setting.
#[derive(Debug, Clone, Copy)]
pub struct Row {
    /// Name in the table.
    pub name: &'static str,
    /// The case that is run; it may differ from the table's case.
    pub case: &'static str,
    /// The variant that is run.
    pub variant: Variant,
    /// Parameters: names, and values with units; the others are drawn from the seed.
    pub set: &'static [(&'static str, &'static str)],
}

/// The measurements of a row.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Measured {
    /// The row's name.
    pub name: &'static str,
    /// Number of requests.
    pub requests: u64,
    /// Number of requests that failed.
    pub failed: u64,
    /// From the first request's start to the last one's end, ns.
    pub elapsed_ns: u64,
    /// Quantiles of the requests' durations.
    pub latency_ns: Latency,
    /// Computed time, ns.
    pub expected_ns: Option<u64>,
    /// `true` if the host was too busy to keep time.
    pub is_late: bool,
    /// Other measurements of the case; each name ends in its unit.
    pub measured: BTreeMap<&'static str, u64>,
}

impl Table {
    /// Runs one of the table's rows.
    ///
    /// # Errors
    /// A step fails, or a program is missing.
    pub fn measure(&self, row: &Row, seed: u64) -> Result<Measured, LabError> {
        let case = find(row.case)?;
        let mut params = drawn(case, seed);
        for (name, value) in row.set {
            params.set(name, value)?;
        }
        let expected_ns = self.expected_ns.map(|f| f(&params, row.variant)).transpose()?;
        Ok(Measured::of(row.name, &uncaptured(case, &params, seed, row.variant)?, expected_ns))
    }
}

impl Measured {
    fn of(name: &'static str, ran: &Ran, expected_ns: Option<u64>) -> Measured {
        let requests = &ran.observed.loaded.requests;
        let start_ns = requests.iter().map(|r| r.start_ns).min().unwrap_or(0);
        let end_ns = requests.iter().map(|r| r.end_ns).max().unwrap_or(0);
        let mut measured = ran.observed.measured.clone();
        if ran.stage.half_open_max > 1 {
            measured.insert("half_open_max", ran.stage.half_open_max);
        }
        Measured {
            name,
            requests: requests.len() as u64,
            failed: requests.iter().filter(|r| r.error.is_some()).count() as u64,
            elapsed_ns: end_ns - start_ns,
            latency_ns: Latency::of(requests),
            expected_ns,
            is_late: !ran.stage.is_punctual(),
            measured,
        }
    }

    /// Number of successful requests per second.
    pub fn per_second(&self) -> f64 {
        (self.requests - self.failed) as f64 * 1e9 / self.elapsed_ns.max(1) as f64
    }
}

/// Returns the headings of the columns.
pub fn head(name_width: usize) -> String {
    format!(
        "{:name_width$} {:>8} {:>6} {:>10} {:>9} {:>9} {:>9} {:>9} {:>9}\n",
        "", "requests", "failed", "total ms", "per s", "mean ms", "p50 ms", "p90 ms", "p99 ms"
    )
}

/// Returns a row as text.
pub fn line(row: &Measured, name_width: usize) -> String {
    let ms = |ns: u64| ns as f64 / 1e6;
    let times = row.latency_ns;
    let mut text = format!(
        "{:name_width$} {:>8} {:>6} {:>10.1} {:>9.1} {:>9.3} {:>9.3} {:>9.3} {:>9.3}",
        row.name,
        row.requests,
        row.failed,
        ms(row.elapsed_ns),
        row.per_second(),
        ms(times.mean_ns),
        ms(times.p50_ns),
        ms(times.p90_ns),
        ms(times.p99_ns),
    );
    if let Some(expected_ns) = row.expected_ns {
        // Writing to a String cannot fail.
        let _ = write!(text, "  arithmetic {:.1} ms", ms(expected_ns));
    }
    for (name, value) in &row.measured {
        let _ = write!(text, "  {name} {value}");
    }
    if row.is_late {
        text += "  (the host was too busy to keep time)";
    }
    text.push('\n');
    text
}

/// Returns the table of a case, if it has one.
pub fn of(case: &str) -> Option<&'static Table> {
    TABLES.iter().find(|table| table.case == case)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_row_sets_what_its_case_has() {
        for row in TABLES.iter().flat_map(|table| table.rows) {
            let case = find(row.case).unwrap_or_else(|error| panic!("{error}"));
            let mut params = drawn(case, 1);
            for (name, value) in row.set {
                assert!(params.set(name, value).is_ok(), "{}: {name} {value}", row.name);
            }
        }
        assert!(TABLES.iter().all(|table| find(table.case).is_ok()));
    }

    #[test]
    fn arithmetic_of_a_small_send_buffer() {
        let table = of("send_buffer").unwrap_or_else(|| unreachable!());
        let params = |sndbuf| {
            Params::default()
                .with("rate_bps", 100_000_000)
                .with("rtt_ns", 20_000_000)
                .with("sndbuf_bytes", sndbuf)
                .with("response_bytes", 22_000_000)
        };
        let expected = table.expected_ns.unwrap_or_else(|| unreachable!());
        let seconds =
            |sndbuf| expected(&params(sndbuf), Variant::Faulty).unwrap_or(0) / 1_000_000_000;
        assert_eq!((seconds(16_384), seconds(106_496), seconds(262_144)), (26, 4, 1));
    }
}
