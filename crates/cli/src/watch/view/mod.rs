//! The page of a watch on a terminal: a state that messages change. [`draw`](View::draw) shows it and
//! does nothing else: it reads no clock, no file and no terminal.
//!
//! ```text
//! report of an interval ─┐
//! key ───────────────────┴─► View::take, View::press ─► state ─► View::draw ─► buffer
//! ```

mod details;
mod draw;
mod lists;
mod paint;
mod past;
#[cfg(test)]
mod tests;

use super::lines::Cost;
use crossterm::event::KeyCode;
use details::Open;
use lists::Pane;
use past::{Moment, Past};
use std::path::PathBuf;
use std::rc::Rc;
use tcpwhy_core::model::{Report, SlowExchange};
use tcpwhy_core::pipeline::Interval;
use tcpwhy_core::report::{Look, Phrases};
use tcpwhy_core::state::{Served, ServerParts, by_server};

/// Settings of a watch, which do not change.
#[derive(Clone, Debug, Default)]
pub struct Fixed {
    /// The interface.
    pub interface: String,
    /// Time between two reports, ns.
    pub interval_ns: u64,
    /// The time that a report covers, ns.
    pub window_ns: u64,
    /// The folder of stored packets, if packets are stored.
    pub kept: Option<PathBuf>,
}

/// The end of an interval.
pub struct Ended {
    /// The report of the window.
    pub report: Report,
    /// Costs and losses of the capture.
    pub cost: Cost,
    /// The requests that hooks saw answered in the window.
    pub served: Vec<Served>,
    /// The exchanges of the interval.
    pub interval: Interval,
    /// Notes, the latest first.
    pub notes: Vec<String>,
    /// The time of day, UTC.
    pub time: String,
}

/// The contents of the view at the end of an interval.
struct Shot {
    report: Report,
    /// The texts of each finding.
    phrases: Vec<Phrases>,
    cost: Cost,
    served: Vec<Served>,
    servers: Vec<ServerParts>,
    /// The longest exchanges of each interval of the window, in descending order.
    exchanges: Vec<SlowExchange>,
    /// The last intervals, oldest first.
    moments: Vec<Moment>,
    notes: Vec<String>,
    time: String,
}

/// Selection and order of a list.
#[derive(Clone, Debug, Default)]
struct Choice {
    /// The selected row.
    row: usize,
    /// Identifier of the selected row: the selection follows it when rows are added or move.
    id: String,
    /// Number of the order, among those that the list has.
    order: usize,
}

/// Percentiles above which exchanges can be listed.
const PERCENTILES: [u64; 3] = [50, 90, 99];

/// Number of rows that a page key moves.
const PAGE_ROWS: usize = 10;

/// The state of the view.
pub struct View {
    look: Look,
    fixed: Fixed,
    past: Past,
    /// The contents that are shown; `None` before the first interval ends.
    shot: Option<Rc<Shot>>,
    /// The newest shot while the view is frozen.
    newest: Option<Rc<Shot>>,
    is_frozen: bool,
    /// The list that was chosen; `None` is the first that has rows.
    chosen: Option<Pane>,
    choices: [Choice; Pane::ALL.len()],
    /// Text that the rows of all lists contain.
    filter: String,
    is_typing: bool,
    /// The percentile that listed exchanges reach; `None` lists all.
    percentile: Option<u64>,
    /// The text that covers the lists.
    open: Option<Open>,
}

impl View {
    /// Creates a view that shows no interval yet.
    pub fn new(look: Look, fixed: Fixed) -> Self {
        let intervals = fixed.window_ns.div_ceil(fixed.interval_ns.max(1)).max(1);
        Self {
            look,
            past: Past::new(usize::try_from(intervals).unwrap_or(usize::MAX)),
            fixed,
            shot: None,
            newest: None,
            is_frozen: false,
            chosen: None,
            choices: Default::default(),
            filter: String::new(),
            is_typing: false,
            percentile: None,
            open: None,
        }
    }

    /// Takes the end of an interval; while the view is frozen, it is shown later.
    pub fn take(&mut self, ended: Ended) {
        let Ended { report, cost, served, interval, notes, time } = ended;
        self.past.add(interval);
        let servers = by_server(&served);
        let exchanges = self.past.exchanges(&report);
        let moments = self.past.moments();
        let phrases =
            report.findings.iter().map(|it| Phrases::of(it, self.look.language)).collect();
        let shot = Shot { report, phrases, cost, served, servers, exchanges, moments, notes, time };
        let shot = Rc::new(shot);
        if self.is_frozen && self.shot.is_some() {
            self.newest = Some(shot);
        } else {
            self.show(shot);
        }
    }

    /// Shows `shot`; each list keeps the selected row if it still has it.
    fn show(&mut self, shot: Rc<Shot>) {
        self.shot = Some(shot);
        for pane in Pane::ALL {
            let rows = self.rows(pane);
            let choice = &mut self.choices[pane as usize];
            if let Some(row) = rows.iter().position(|row| row.id == choice.id) {
                choice.row = row;
            }
            choice.row = choice.row.min(rows.len().saturating_sub(1));
        }
    }

    /// Applies a key; returns whether the watch is to end.
    pub fn press(&mut self, key: KeyCode) -> bool {
        match (self.is_typing, self.open.is_some()) {
            (true, _) => self.type_filter(key),
            (_, true) => self.press_in_text(key),
            _ if key == KeyCode::Char('q') => return true,
            _ => self.press_in_lists(key),
        }
        false
    }

    fn type_filter(&mut self, key: KeyCode) {
        match key {
            KeyCode::Char(char) => self.filter.push(char),
            KeyCode::Backspace => {
                self.filter.pop();
            }
            KeyCode::Enter => self.is_typing = false,
            KeyCode::Esc => {
                self.filter.clear();
                self.is_typing = false;
            }
            _ => return,
        }
        self.select(self.choice().row);
    }

    fn press_in_text(&mut self, key: KeyCode) {
        let Some(open) = &mut self.open else { return };
        match key {
            KeyCode::Up | KeyCode::Char('k') => open.top = open.top.saturating_sub(1),
            KeyCode::Down | KeyCode::Char('j') => open.top = open.top.saturating_add(1),
            KeyCode::PageUp => open.top = open.top.saturating_sub(PAGE_ROWS),
            KeyCode::PageDown => open.top = open.top.saturating_add(PAGE_ROWS),
            KeyCode::Home => open.top = 0,
            KeyCode::Char('q' | '?') | KeyCode::Esc | KeyCode::Enter | KeyCode::Backspace => {
                self.open = None;
            }
            _ => {}
        }
    }

    fn press_in_lists(&mut self, key: KeyCode) {
        let (pane, row) = (self.pane(), self.choice().row);
        match key {
            KeyCode::Char(' ' | '?' | '/' | 'p') | KeyCode::Esc => {}
            // A movement chooses the list, so that the view does not go on to another one by itself.
            _ => self.chosen = Some(pane),
        }
        match key {
            KeyCode::Char('?') => self.open = Some(Open::help()),
            KeyCode::Char(' ') => self.freeze(),
            KeyCode::Char('/') => self.is_typing = true,
            KeyCode::Char('s') => {
                let order = &mut self.choices[pane as usize].order;
                *order = (*order + 1) % pane.orders().len();
                self.select(0);
            }
            KeyCode::Char('p') => {
                let at = PERCENTILES.iter().position(|it| Some(*it) == self.percentile);
                self.percentile = PERCENTILES.get(at.map_or(0, |at| at + 1)).copied();
                self.chosen = Some(Pane::Exchanges);
                self.select(0);
            }
            KeyCode::Char(digit @ '1'..='9') => {
                let at = digit as usize - '1' as usize;
                self.chosen = Pane::ALL.get(at).copied().or(self.chosen);
            }
            KeyCode::Tab | KeyCode::Right => self.chosen = Some(pane.after(1)),
            KeyCode::BackTab | KeyCode::Left => {
                self.chosen = Some(pane.after(Pane::ALL.len() - 1));
            }
            KeyCode::Up | KeyCode::Char('k') => self.select(row.saturating_sub(1)),
            KeyCode::Down | KeyCode::Char('j') => self.select(row + 1),
            KeyCode::PageUp => self.select(row.saturating_sub(PAGE_ROWS)),
            KeyCode::PageDown => self.select(row + PAGE_ROWS),
            KeyCode::Home => self.select(0),
            KeyCode::End => self.select(usize::MAX),
            KeyCode::Enter => {
                let rows = self.rows(pane);
                if let (Some(shot), Some(row)) = (&self.shot, rows.get(row)) {
                    self.open = Some(Open::of(Rc::clone(shot), pane, row.item));
                }
            }
            KeyCode::Esc => {
                self.filter.clear();
                self.percentile = None;
            }
            _ => {}
        }
    }

    fn freeze(&mut self) {
        self.is_frozen = !self.is_frozen;
        if let Some(newest) = self.newest.take() {
            self.show(newest);
        }
    }

    /// Returns the present list.
    fn pane(&self) -> Pane {
        let has_rows = |pane: &Pane| !self.rows(*pane).is_empty();
        self.chosen.or_else(|| Pane::ALL.into_iter().find(has_rows)).unwrap_or(Pane::Findings)
    }

    fn choice(&self) -> &Choice {
        &self.choices[self.pane() as usize]
    }

    /// Selects a row of the present list, at most its last.
    fn select(&mut self, row: usize) {
        let pane = self.pane();
        let rows = self.rows(pane);
        let row = row.min(rows.len().saturating_sub(1));
        let id = rows.into_iter().nth(row).map(|row| row.id).unwrap_or_default();
        let choice = &mut self.choices[pane as usize];
        (choice.row, choice.id) = (row, id);
    }
}
