//! `Report.p99`: percentiles of exchanges by columns of their table, as they are and without a cause.

use crate::arrow::Columns;
use crate::errors::exception;
use crate::interrupt::LOOKS_EVERY;
use crate::table::{Origin, Passing, Table};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};
use std::time::Instant;
use tcpwhy_cli::error::Error;
use tcpwhy_core::dns::Lookup;
use tcpwhy_core::model::{Cause, ConnectionReport};
use tcpwhy_core::tables::{self, Cell, Kind, Rows, Stall, TableExchange, exchange_row};

/// The name that stands for a row for each cause.
const CAUSE: &str = "cause";

/// A column of exchanges by which they are grouped.
#[derive(Clone)]
struct By {
    name: String,
    index: usize,
}

/// Exchanges that are alike in the columns of the grouping. It grows by 8 bytes for each exchange, and
/// 16 for each of its causes.
#[derive(Default)]
struct Group {
    /// Durations, ns.
    wall_ns: Vec<u64>,
    /// For each cause the exchanges that have it: index, and time that it owns, ns.
    causes: BTreeMap<&'static str, Vec<(usize, u64)>>,
}

struct Groups {
    by: Vec<By>,
    groups: HashMap<Vec<String>, Group>,
}

impl Rows for Groups {
    fn connection(&mut self, _: &ConnectionReport) {}

    fn exchange(&mut self, exchange: &TableExchange, stalls: &[Stall]) {
        let row: Vec<Cell> = exchange_row(exchange).collect();
        let key = self.by.iter().map(|by| text(&row[by.index])).collect();
        let group = self.groups.entry(key).or_default();
        let index = group.wall_ns.len();
        group.wall_ns.push(exchange.row.wall_ns);
        let mut owned_ns: BTreeMap<Cause, u64> = BTreeMap::new();
        for stall in stalls {
            *owned_ns.entry(stall.cause).or_default() += stall.ns;
        }
        for (cause, ns) in owned_ns {
            group.causes.entry(cause.id()).or_default().push((index, ns));
        }
    }

    fn lookup(&mut self, _: &Lookup) {}
}

/// Returns a cell by which exchanges are grouped.
fn text(cell: &Cell) -> String {
    match cell {
        Cell::Text(text) => text.clone(),
        Cell::Integer(value) | Cell::Instant(value) => value.to_string(),
        Cell::Share(share) => share.to_string(),
        Cell::Flag(flag) => flag.to_string(),
    }
}

/// Returns the columns to group by.
fn chosen(names: &[String]) -> PyResult<Vec<By>> {
    // Those of text, and those that identify a connection.
    let columns = tables::Table::Exchanges.columns();
    let is_offered = |(name, kind): &&(String, Kind)| {
        *kind == Kind::Text
            || *kind == Kind::Flag
            || ["file", "connection"].contains(&name.as_str())
    };
    let find = |name: &String| {
        let index = columns.iter().position(|column| is_offered(&column) && column.0 == *name);
        index.map(|index| By { name: name.clone(), index }).ok_or_else(|| {
            let all = columns.iter().filter(is_offered).map(|(name, _)| name.as_str());
            let all: Vec<&str> = all.chain([CAUSE]).collect();
            PyValueError::new_err(format!("by: {name} is none of {}", all.join(", ")))
        })
    };
    names.iter().filter(|name| *name != CAUSE).map(find).collect()
}

/// Reads the captures again, and returns the table of percentiles. Rows with the largest `owned_ns`, or
/// without causes the largest `p99_ns`, come first.
///
/// # Errors
/// `ValueError` for a column that does not exist; otherwise see [`exception`].
pub fn table(py: Python<'_>, origin: &Origin, names: &[String]) -> PyResult<Table> {
    let by = chosen(names)?;
    let groups = Groups { by: by.clone(), groups: HashMap::new() };
    let groups = gathered(py, origin, groups)?;
    let of_causes = names.iter().any(|name| name == CAUSE);
    let integers = |names: &[&str]| -> Vec<(String, Kind)> {
        names.iter().map(|name| ((*name).to_owned(), Kind::Integer)).collect()
    };
    let mut columns: Vec<(String, Kind)> =
        by.iter().map(|by| (by.name.clone(), Kind::Text)).collect();
    if of_causes {
        columns.push((CAUSE.to_owned(), Kind::Text));
        columns.extend(integers(&["exchanges", "affected", "p50_ns", "p99_ns"]));
        columns.extend(integers(&["p50_without_ns", "p99_without_ns", "owned_ns"]));
    } else {
        columns.extend(integers(&["exchanges", "p50_ns", "p90_ns", "p99_ns", "max_ns", "wall_ns"]));
    }
    let mut rows: Vec<(Reverse<u64>, Vec<String>, Vec<u64>)> = Vec::new();
    for (key, Group { wall_ns, causes }) in groups {
        let mut sorted_ns = wall_ns.clone();
        sorted_ns.sort_unstable();
        let exchanges = wall_ns.len() as u64;
        let at = |share| quantile(&sorted_ns, share);
        if !of_causes {
            let max_ns = sorted_ns.last().copied().unwrap_or(0);
            let cells = vec![exchanges, at(0.5), at(0.9), at(0.99), max_ns, wall_ns.iter().sum()];
            rows.push((Reverse(at(0.99)), key, cells));
            continue;
        }
        for (cause, affected) in causes {
            let mut without_ns = wall_ns.clone();
            for (index, owned_ns) in &affected {
                without_ns[*index] = without_ns[*index].saturating_sub(*owned_ns);
            }
            without_ns.sort_unstable();
            let without = |share| quantile(&without_ns, share);
            let owned_ns = affected.iter().map(|(_, ns)| ns).sum();
            let key = key.iter().cloned().chain([cause.to_owned()]).collect();
            let count = affected.len() as u64;
            let now = [exchanges, count, at(0.5), at(0.99)];
            let cells = [&now[..], &[without(0.5), without(0.99), owned_ns]].concat();
            rows.push((Reverse(owned_ns), key, cells));
        }
    }
    rows.sort_unstable();
    let mut columns = Columns::new(columns);
    for (_, key, cells) in rows {
        let key = key.into_iter().map(Cell::Text);
        columns.push(key.chain(cells.into_iter().map(Cell::Integer)));
    }
    Ok(Table::kept("p99", columns))
}

/// Takes the whole pass.
fn gathered(
    py: Python<'_>,
    origin: &Origin,
    groups: Groups,
) -> PyResult<HashMap<Vec<String>, Group>> {
    let broken = |error: Error| exception(py, &error);
    let capture = py.detach(|| origin.open()).map_err(broken)?;
    let mut passing = Passing::new(capture, &origin.options, groups);
    loop {
        let step = || {
            let until = Instant::now() + LOOKS_EVERY;
            while Instant::now() < until {
                if let Some(done) = passing.step()? {
                    return Ok(Some(done));
                }
            }
            Ok(None)
        };
        if let Some(done) = py.detach(step).map_err(broken)? {
            return Ok(done.groups);
        }
        py.check_signals()?;
    }
}

/// Returns a quantile of sorted values, interpolated between neighbours (`quantile_cont` of SQL).
fn quantile(sorted_ns: &[u64], share: f64) -> u64 {
    let Some(last) = sorted_ns.len().checked_sub(1) else { return 0 };
    let at = share * last as f64;
    let (low, high) = (sorted_ns[at.floor() as usize], sorted_ns[at.ceil() as usize]);
    low + ((high - low) as f64 * at.fract()).round() as u64
}
