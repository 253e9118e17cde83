//! `tcpwhy lab table`: the load of a case under several settings, side by side.

use crate::lab::error::Error;
use clap::Args;
use std::process::ExitCode;
use tcpwhy_cli::args::Display;
use tcpwhy_cli::one_of::OneOf;
use tcpwhy_cli::progress::Waiting;
use tcpwhy_cli::{output, terminal};
use tcpwhy_core::report::Page;
use tcpwhy_lab::tables::{self, Measured, TABLES, head, line};
use tcpwhy_lab::{LabError, cleanup};

/// Shown below the options in the help.
pub const NOTES: &str = "\
Each setting is run once, without captures and by the clients' own clock: mean, quantiles and rate.";

#[derive(Debug, Args)]
pub struct TableArgs {
    /// The case whose table it is
    #[arg(value_name = "CASE", value_parser = CASE, hide_possible_values = true)]
    pub case: String,

    /// Print the rows as JSON
    #[arg(long)]
    pub json: bool,

    #[command(flatten)]
    pub display: Display,

    /// Seed for everything random: parameters that a row does not set, addresses
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
}

/// The name of a case that has a table.
const CASE: OneOf =
    OneOf { what: "table", names: || TABLES.iter().map(|table| table.case).collect() };

/// Measures all rows of a table.
///
/// # Errors [`Error::Lab`] if a row cannot be run on this system.
pub fn run(asked: &TableArgs) -> Result<ExitCode, Error> {
    let no_table = || LabError::UnknownCase(asked.case.clone());
    let table = tables::of(&asked.case).ok_or_else(no_table)?;
    cleanup::on_interrupt();
    let waiting = Waiting::new(!asked.display.no_progress);
    let measure = |row: &tables::Row| {
        waiting.tell(&format!("{}: {}", table.case, row.name));
        table.measure(row, asked.seed)
    };
    let rows: Vec<Measured> = table.rows.iter().map(measure).collect::<Result<_, _>>()?;
    drop(waiting);
    let text = if asked.json {
        serde_json::to_string_pretty(&rows)? + "\n"
    } else {
        let look = terminal::look(&asked.display, false);
        let mut page = Page::new(&look);
        page.paragraph(None, table.about, 0);
        let width = rows.iter().map(|row| row.name.len()).max().unwrap_or(0);
        let lines = rows.iter().map(|row| line(row, width));
        page.finish() + "\n" + &head(width) + &lines.collect::<String>()
    };
    output::print(&text)?;
    Ok(ExitCode::SUCCESS)
}
