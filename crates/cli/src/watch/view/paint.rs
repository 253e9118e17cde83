//! Text for the terminal: what it would interpret is escaped, and styles are those of the reports.

use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use tcpwhy_core::report::{Look, Page, Paint, inert, pieces};

/// Returns `text` as it may be drawn: what a terminal would interpret is escaped, and the characters
/// are those that it has.
pub fn plain(look: &Look, text: &str) -> String {
    look.spell(&inert(text, &[], false))
}

/// Returns the style of `paint`, without colour if colours are not used.
pub fn style(look: &Look, paint: Paint) -> Style {
    let plain = Style::new();
    if !look.colour {
        return if paint == Paint::Bold { plain.bold() } else { plain };
    }
    match paint {
        Paint::Bold => plain.bold(),
        Paint::Dim => plain.fg(Color::DarkGray),
        Paint::Fault => plain.fg(Color::Red).bold(),
        Paint::Cost | Paint::Warning | Paint::Segment(1) => plain.fg(Color::Yellow),
        Paint::Good => plain.fg(Color::Green),
        Paint::Code | Paint::Segment(2) => plain.fg(Color::Cyan),
        Paint::Segment(0) => plain.fg(Color::Red),
        Paint::Segment(3) => plain.fg(Color::Blue),
        Paint::Segment(_) => plain.fg(Color::DarkGray),
    }
}

/// Returns the style of the selected row.
pub fn selected() -> Style {
    Style::new().add_modifier(Modifier::REVERSED)
}

/// Returns a line in one style, without what a terminal would interpret.
pub fn line(look: &Look, paint: Option<Paint>, text: &str) -> Line<'static> {
    let style = paint.map_or(Style::new(), |paint| style(look, paint));
    Line::from(Span::styled(plain(look, text), style))
}

/// Returns the lines that `write` writes for `width` columns.
pub fn paged(look: &Look, width: usize, write: impl FnOnce(&mut Page<'_>)) -> Vec<Line<'static>> {
    let look = Look { width, ..*look };
    let mut page = Page::new(&look);
    write(&mut page);
    lines(&look, &page.finish())
}

/// Returns the lines of a page that was written for the same look.
pub fn lines(look: &Look, page: &str) -> Vec<Line<'static>> {
    let styled = |line: &str| {
        let spans = pieces(line).into_iter().map(|(paint, text)| {
            let style = paint.map_or(Style::new(), |paint| style(look, paint));
            Span::styled(text.to_owned(), style)
        });
        Line::from(spans.collect::<Vec<_>>())
    };
    page.lines().map(styled).collect()
}

/// Keeps at most `rows` lines, and marks the last one if there were more.
pub fn at_most(rows: usize, look: &Look, mut lines: Vec<Line<'static>>) -> Vec<Line<'static>> {
    if lines.len() > rows {
        lines.truncate(rows);
        if let Some(last) = lines.last_mut() {
            last.push_span(Span::raw(look.spell(" …")));
        }
    }
    lines
}
