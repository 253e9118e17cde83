//! Draws the state of the view into a buffer of any size.

use super::lists::{Column, Pane, Row};
use super::past::Moment;
use super::{Shot, View, paint};
use crate::watch::lines;
use ratatui::Frame;
use ratatui::layout::{Alignment, Constraint, Layout, Rect};
use ratatui::symbols::bar;
use ratatui::text::{Line, Span};
use ratatui::widgets::{Paragraph, RenderDirection, Sparkline, Table, TableState};
use tcpwhy_core::model::units::{counted, duration, printable, share};
use tcpwhy_core::model::{Cause, Class};
use tcpwhy_core::report::{Glyphs, Look, Page, Paint, columns_of, cut};

/// Width beyond which a text is hard to read, columns.
const TEXT_COLUMNS: u16 = 140;
/// Rows from which on the view has a history, and titles above its lists.
const ROWS_TALL: u16 = 20;
/// Rows that a list needs beside others: its title, its heading and two rows.
const LIST_ROWS_MIN: u16 = 4;
/// Blank columns between two columns of a list.
const GAP: u16 = 2;
/// Least width of a column that takes the room left, columns.
const WIDE_MIN: u16 = 12;
/// Greatest width of any other column, columns.
const NARROW_MAX: u16 = 32;

/// Number of rows of the screen for each list.
type Heights = [u16; Pane::ALL.len()];

/// Characters of a chart on a terminal with ASCII only.
const ASCII_BARS: bar::Set<'static> = bar::Set {
    full: "#",
    seven_eighths: "#",
    three_quarters: "=",
    five_eighths: "=",
    half: "-",
    three_eighths: "-",
    one_quarter: "_",
    one_eighth: "_",
    empty: " ",
};

impl View {
    /// Draws the view.
    pub fn draw(&self, frame: &mut Frame<'_>) {
        let area = frame.area();
        if area.is_empty() {
            return;
        }
        let [head, body, foot] = Layout::vertical([
            Constraint::Length(1),
            Constraint::Fill(1),
            Constraint::Length(if self.note().is_some() { 2 } else { 1 }),
        ])
        .areas(area);
        self.draw_foot(frame, foot);
        if let Some(open) = &self.open {
            let title = paint::line(&self.look, Some(Paint::Bold), &open.title());
            frame.render_widget(title, head);
            self.draw_text(frame, body);
            return;
        }
        frame.render_widget(self.name(), head);
        let Some(shot) = &self.shot else {
            let interval = duration(self.fixed.interval_ns);
            let text = format!("capturing; the first report comes after {interval}");
            frame.render_widget(paint::line(&self.look, None, &text), body);
            return;
        };
        let width = usize::from(area.width.saturating_sub(2));
        let about = self.about(shot, width, area.height);
        let verdict = self.verdict(shot, width, area.height);
        let chart = if area.height >= ROWS_TALL { (area.height / 12).clamp(1, 4) + 2 } else { 0 };
        let [top, said, history, lists] = Layout::vertical([
            Constraint::Length(about.len() as u16),
            Constraint::Length(verdict.len() as u16),
            Constraint::Length(chart),
            Constraint::Fill(1),
        ])
        .areas(body);
        frame.render_widget(Paragraph::new(about), top);
        frame.render_widget(Paragraph::new(verdict), said);
        self.draw_history(frame, shot, history);
        self.draw_lists(frame, lists, area.height);
    }

    /// Returns the first line: what is watched, and since when it is frozen.
    fn name(&self) -> Line<'static> {
        let name = format!("tcpwhy watch live:{}", self.fixed.interface);
        let mut line = paint::line(&self.look, Some(Paint::Bold), &name);
        if self.is_frozen {
            let at = self.shot.as_ref().map_or("", |shot| shot.time.as_str());
            let style = paint::style(&self.look, Paint::Warning).patch(paint::selected());
            line.push_span(Span::raw("  "));
            line.push_span(Span::styled(format!(" FROZEN at {at}: space goes on "), style));
        } else if let Some(shot) = &self.shot {
            line.push_span(Span::raw(format!("  {}", shot.time)));
        }
        line
    }

    /// Returns the numbers of the window and the limits of the capture.
    fn about(&self, shot: &Shot, width: usize, height: u16) -> Vec<Line<'static>> {
        let (report, cost) = (&shot.report, &shot.cost);
        let covered_ns = report.watched.map_or(0, |it| it.last_ns.saturating_sub(it.first_ns));
        let mut parts = vec![format!("{} in {}", lines::exchanges(report), duration(covered_ns))];
        if report.totals.exchanges > 0 {
            parts.push(format!("p50 {}", duration(report.latency.p50_ns)));
            parts.push(format!("p99 {}", duration(report.latency.p99_ns)));
        }
        parts.push(format!("{} open", counted(cost.open_connections, "connection", "connections")));
        parts.push(format!("own CPU {}", share(cost.own_cpu_share)));
        let write = |page: &mut Page<'_>| {
            page.paragraph(None, &parts.join(" · "), 0);
            lines::limits(report, cost).iter().for_each(|limit| page.warning(limit));
        };
        let rows = usize::from(height / 8).clamp(1, 4);
        paint::at_most(rows, &self.look, paint::paged(&self.look, width, write))
    }

    /// Returns the answer: the first fault and what to do, or that there is none.
    fn verdict(&self, shot: &Shot, width: usize, height: u16) -> Vec<Line<'static>> {
        let rows = usize::from(height / 4).clamp(2, 6);
        let findings = &shot.report.findings;
        let fault = findings.iter().position(|it| it.cause.class() == Class::Fault);
        let Some(phrases) = fault.map(|at| &shot.phrases[at]) else {
            let write = |page: &mut Page<'_>| match shot.phrases.first() {
                _ if shot.report.totals.exchanges + shot.report.totals.connections == 0 => {
                    page.paragraph(Some(Paint::Dim), "no connection was seen in the window", 0);
                }
                None => page.paragraph(Some(Paint::Good), "nothing is wrong", 0),
                Some(cost) => {
                    page.paragraph(Some(Paint::Good), "no fault", 0);
                    page.paragraph(None, &format!("most time: {}", cost.headline), 0);
                }
            };
            return paint::at_most(rows, &self.look, paint::paged(&self.look, width, write));
        };
        let said = paint::paged(&self.look, width, |page| {
            page.paragraph(Some(Paint::Fault), &format!("FAULT  {}", phrases.headline), 0);
        });
        let fix = phrases.fixes.first().map_or_else(Vec::new, |fix| {
            let text = format!("do: {}: {}", fix.place, fix.change);
            paint::paged(&self.look, width, |page| page.paragraph(Some(Paint::Bold), &text, 0))
        });
        let room = rows.saturating_sub(fix.len().min(rows / 2));
        let mut both = paint::at_most(room, &self.look, said);
        let room = rows.saturating_sub(both.len());
        both.extend(paint::at_most(room, &self.look, fix));
        both
    }

    /// Draws the 99th percentile of each interval, the latest on the right, and below it marks the
    /// intervals with cases of the selected cause, or of the first fault.
    fn draw_history(&self, frame: &mut Frame<'_>, shot: &Shot, area: Rect) {
        if area.height < 3 {
            return;
        }
        let shown = shot.moments.len().min(usize::from(area.width));
        let moments = &shot.moments[shot.moments.len() - shown..];
        let p99s = || moments.iter().map(|it| it.latency.map(|(_, p99_ns)| p99_ns));
        let most_ns = p99s().flatten().max().unwrap_or(0);
        let cause = self.marked(shot);
        let (interval, span) = (self.fixed.interval_ns, shown as u64 * self.fixed.interval_ns);
        let mut title = format!("p99 of each {}", duration(interval));
        title += &format!(", at most {} in {}", duration(most_ns), duration(span));
        let mark = self.look.spell("▲");
        if let Some(cause) = cause {
            title += &format!("; {mark} {}", cause.id());
        }
        let [name, bars, marks] =
            Layout::vertical([Constraint::Length(1), Constraint::Fill(1), Constraint::Length(1)])
                .areas(area);
        frame.render_widget(paint::line(&self.look, Some(Paint::Dim), &title), name);
        let (set, none) = match self.look.glyphs {
            Glyphs::Unicode => (bar::NINE_LEVELS, "·"),
            Glyphs::Ascii => (ASCII_BARS, "."),
        };
        let chart = Sparkline::default()
            .data(p99s().rev().collect::<Vec<Option<u64>>>())
            .max(most_ns.max(1))
            .direction(RenderDirection::RightToLeft)
            .bar_set(set)
            .absent_value_symbol(none)
            .absent_value_style(paint::style(&self.look, Paint::Dim))
            .style(paint::style(&self.look, Paint::Code));
        frame.render_widget(chart, bars);
        let is_marked = |it: &Moment| cause.is_some_and(|cause| it.causes.contains(&cause));
        let marked = moments.iter().map(|it| if is_marked(it) { mark.as_str() } else { " " });
        let line = Line::styled(marked.collect::<String>(), paint::style(&self.look, Paint::Fault));
        frame.render_widget(line.alignment(Alignment::Right), marks);
    }

    /// Returns the cause that the history marks: of the selected finding, or the first fault.
    fn marked(&self, shot: &Shot) -> Option<Cause> {
        let row = self.choices[Pane::Findings as usize].row;
        let rows = self.rows(Pane::Findings);
        let chosen = rows.get(row).filter(|_| self.pane() == Pane::Findings);
        let findings = &shot.report.findings;
        let chosen = chosen.and_then(|row| findings.get(row.item)).map(|it| it.cause);
        let mut faults = findings.iter().filter(|it| it.cause.class() == Class::Fault);
        chosen.or_else(|| faults.next().map(|it| it.cause))
    }

    /// Draws the names of all lists, and below them as many lists as there is room for: first the
    /// present one, then the others in order.
    fn draw_lists(&self, frame: &mut Frame<'_>, area: Rect, height: u16) {
        if area.is_empty() {
            return;
        }
        let all = Pane::ALL.map(|pane| (pane, self.rows(pane)));
        let [tabs, room] =
            Layout::vertical([Constraint::Length(1), Constraint::Fill(1)]).areas(area);
        let present = self.pane();
        frame.render_widget(self.tabs(&all, present, usize::from(area.width)), tabs);
        let is_titled = height >= ROWS_TALL;
        let heights = heights(present, &all, room.height, is_titled);
        let mut top = room.y;
        for (pane, rows) in &all {
            let height = heights[*pane as usize].min(room.bottom().saturating_sub(top));
            if height > 0 {
                let area = Rect { y: top, height, ..room };
                let is_present = *pane == present;
                self.draw_list(frame, (*pane, is_present), rows, area, is_titled);
                top += height + 1;
            }
        }
    }

    /// Returns the names of the lists with the number of their rows; the present one is marked.
    fn tabs(&self, all: &[(Pane, Vec<Row>)], present: Pane, width: usize) -> Line<'static> {
        let numbered =
            || all.iter().enumerate().map(|(at, (pane, rows))| (at + 1, *pane, rows.len()));
        let counted = numbered().map(|(at, pane, rows)| format!(" {at} {} {rows} ", pane.name()));
        let plain = numbered().map(|(at, pane, _)| format!(" {at} {} ", pane.name()));
        let mut forms = [counted.collect::<Vec<_>>(), plain.collect()].into_iter();
        let fits =
            |names: &Vec<String>| names.iter().map(|it| columns_of(it)).sum::<usize>() <= width;
        let Some(names) = forms.find(fits) else {
            let (at, of) = (present as usize + 1, all.len());
            let text = format!(" {} ({at} of {of}, Tab: next) ", present.name());
            return Line::styled(text, paint::selected());
        };
        let spans = names.into_iter().enumerate().map(|(at, name)| match at == present as usize {
            true => Span::styled(name, paint::selected()),
            false => Span::styled(name, paint::style(&self.look, Paint::Dim)),
        });
        Line::from(spans.collect::<Vec<_>>())
    }

    fn draw_list(
        &self,
        frame: &mut Frame<'_>,
        (pane, is_present): (Pane, bool),
        rows: &[Row],
        area: Rect,
        is_titled: bool,
    ) {
        let choice = &self.choices[pane as usize];
        let mut area = area;
        if is_titled {
            let order = pane.orders().get(choice.order).copied().unwrap_or_default();
            let mut title = format!("{}, by {order}", pane.title());
            if let Some(percentile) = self.percentile.filter(|_| pane == Pane::Exchanges) {
                let least = self.shot.as_ref().map_or(0, |shot| shot.percentile_ns(percentile));
                title += &format!(", those at or above p{percentile} ({})", duration(least));
            }
            let title = paint::line(&self.look, Some(Paint::Bold), &title);
            frame.render_widget(title, Rect { height: 1, ..area });
            area = Rect { y: area.y + 1, height: area.height.saturating_sub(1), ..area };
        }
        if rows.is_empty() {
            let text = match (self.filter.is_empty(), pane) {
                (false, _) => "no row has the filter's text",
                (true, Pane::Findings) => "no cause was found",
                (true, Pane::Servers) => "hooks saw no request that took 1 ms or more",
                (true, Pane::State) => "no state of sockets stands beside a finding",
                _ => "none",
            };
            frame.render_widget(paint::line(&self.look, Some(Paint::Dim), text), area);
            return;
        }
        let columns = pane.columns();
        let shown = widths(columns, rows, area.width);
        let cell = |column: usize, text: &str| {
            let side = if columns[column].is_number { Alignment::Right } else { Alignment::Left };
            paint::line(&self.look, None, text).alignment(side)
        };
        let heading = shown.iter().map(|(column, _)| cell(*column, columns[*column].name));
        let heading = ratatui::widgets::Row::new(heading.collect::<Vec<_>>())
            .style(paint::style(&self.look, Paint::Dim));
        let table_row = |row: &Row| {
            let cells = shown.iter().map(|(column, width)| {
                let text = row.cells.get(*column).map_or("", String::as_str);
                let mut line = cell(*column, &cut(text, usize::from(*width)));
                if let Some(paint) = row.paint.filter(|_| *column == 0) {
                    line = line.style(paint::style(&self.look, paint));
                }
                line
            });
            ratatui::widgets::Row::new(cells.collect::<Vec<_>>())
        };
        let table = Table::new(
            rows.iter().map(table_row),
            shown.iter().map(|(_, width)| Constraint::Length(*width)),
        )
        .header(heading)
        .column_spacing(GAP)
        .row_highlight_style(paint::selected());
        let visible = usize::from(area.height.saturating_sub(1));
        // The selected row stays in the middle where there are rows on both sides.
        let top = choice.row.saturating_sub(visible / 2).min(rows.len().saturating_sub(visible));
        let mut state = TableState::new()
            .with_offset(if is_present { top } else { 0 })
            .with_selected(is_present.then_some(choice.row));
        frame.render_stateful_widget(table, area, &mut state);
    }

    fn draw_text(&self, frame: &mut Frame<'_>, area: Rect) {
        let Some(open) = &self.open else { return };
        let width = usize::from(area.width.min(TEXT_COLUMNS));
        let look = Look { width, ..self.look };
        let kept = self.fixed.kept.as_ref().map(|folder| folder.display().to_string());
        let lines = paint::lines(&look, &open.text(&look, kept.as_deref()));
        let last = lines.len().saturating_sub(usize::from(area.height));
        let lines = lines.into_iter().skip(open.top.min(last)).collect::<Vec<_>>();
        frame.render_widget(Paragraph::new(lines), area);
    }

    /// Returns the latest note.
    fn note(&self) -> Option<&str> {
        self.shot.as_ref().and_then(|shot| shot.notes.first()).map(String::as_str)
    }

    /// Draws the latest note and the keys.
    fn draw_foot(&self, frame: &mut Frame<'_>, area: Rect) {
        if let Some(note) = self.note() {
            let more = self.shot.as_ref().map_or(0, |shot| shot.notes.len()) - 1;
            let more = if more > 0 { format!(" (and {more} before)") } else { String::new() };
            let text = format!("! {}{more}", printable(note));
            let line = paint::line(&self.look, Some(Paint::Warning), &text);
            frame.render_widget(line, Rect { height: 1, ..area });
        }
        let last = Rect { y: area.bottom().saturating_sub(1), height: 1, ..area };
        let keys: &[&str] = match (self.is_typing, self.open.is_some()) {
            (true, _) => &["Enter keeps it  Esc drops it"],
            (_, true) => {
                &["↑ ↓ PgUp PgDn scroll  Esc closes", "↑ ↓ scroll  Esc closes", "Esc closes"]
            }
            _ => &[
                "? keys  ↑ ↓ row  Enter details  Tab list  s order  / filter  p percentile  space freeze  q end",
                "? keys  ↑ ↓ row  Enter details  / filter  space freeze  q end",
                "? keys  Enter details  q end",
            ],
        };
        let filter = match (self.is_typing, self.filter.is_empty()) {
            (true, _) => format!("filter: {}_  ", self.filter),
            (false, false) => format!("filter: {} (Esc drops it)  ", self.filter),
            (false, true) => String::new(),
        };
        let room = usize::from(area.width).saturating_sub(columns_of(&filter));
        let keys = keys.iter().find(|keys| columns_of(keys) <= room);
        let text = self.look.spell(keys.copied().unwrap_or_default());
        let mut line = paint::line(&self.look, Some(Paint::Bold), &filter);
        line.push_span(Span::styled(text, paint::style(&self.look, Paint::Dim)));
        frame.render_widget(line, last);
    }
}

/// Returns the columns for which there is room, with their widths.
fn widths(columns: &[Column], rows: &[Row], width: u16) -> Vec<(usize, u16)> {
    let longest = |at: usize| {
        let cells = rows.iter().filter_map(|row| row.cells.get(at)).map(|cell| columns_of(cell));
        // A column in which no row has anything is left out.
        cells
            .max()
            .filter(|length| *length > 0)
            .map(|it| it.max(columns_of(columns[at].name)) as u16)
    };
    let wanted = |(at, column): (usize, &Column)| {
        let longest = longest(at)?;
        let is_fixed = column.is_number || !column.is_wide;
        Some((at, if is_fixed { longest.min(NARROW_MAX) } else { WIDE_MIN.min(longest) }, longest))
    };
    let mut shown: Vec<_> = columns.iter().enumerate().filter_map(wanted).collect();
    let sum =
        |shown: &[(usize, u16, u16)]| shown.iter().map(|(_, width, _)| width + GAP).sum::<u16>();
    while sum(&shown) > width + GAP {
        let last = shown.iter().enumerate().max_by_key(|(_, (at, ..))| columns[*at].rank);
        match last.filter(|(_, (at, ..))| columns[*at].rank > 0) {
            Some((place, _)) => shown.remove(place),
            None => break,
        };
    }
    let left = (width + GAP).saturating_sub(sum(&shown));
    let wide = shown.iter_mut().find(|(at, ..)| columns[*at].is_wide);
    if let Some((_, width, longest)) = wide {
        *width = (*width + left).min(*longest);
    }
    shown.into_iter().map(|(at, width, _)| (at, width)).collect()
}

/// Returns the number of rows of the screen for each list, among `room`. The present list has what it
/// needs of two thirds; the others have a few rows each where there is room for titles, then more.
fn heights(present: Pane, all: &[(Pane, Vec<Row>)], room: u16, is_titled: bool) -> Heights {
    let need = |rows: &[Row]| rows.len().clamp(1, 1_000) as u16 + 1 + u16::from(is_titled);
    let others = || all.iter().filter(|(pane, rows)| *pane != present && !rows.is_empty());
    let has_others = is_titled && room >= 3 * LIST_ROWS_MIN && others().next().is_some();
    let mut heights = [0; Pane::ALL.len()];
    let own = need(&all[present as usize].1).min(if has_others { room - room / 3 } else { room });
    heights[present as usize] = own;
    let mut left = room - own;
    for most in [2 * LIST_ROWS_MIN, 4 * LIST_ROWS_MIN, u16::MAX] {
        for (pane, rows) in others().filter(|_| has_others) {
            let height = &mut heights[*pane as usize];
            // One row is between two lists.
            let between = u16::from(*height == 0);
            let more = need(rows).min(most).min(*height + left.saturating_sub(between));
            if more >= LIST_ROWS_MIN.min(need(rows)) && more > *height {
                left -= more - *height + between;
                *height = more;
            }
        }
    }
    heights[present as usize] += left;
    heights
}
