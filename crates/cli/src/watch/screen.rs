//! The terminal's alternate screen, on which each page replaces the last one, and its keys.

use crate::error::Error;
use std::io::{self, IsTerminal, Write};
use tcpwhy_live::sys::process;

/// Shows the alternate screen and hides the cursor (xterm's control sequences).
const ENTER: &str = "\x1b[?1049h\x1b[?25l";
const LEAVE: &str = "\x1b[?25h\x1b[?1049l";

/// Rows of a terminal that does not state its size.
const ROWS: usize = 24;

/// A page, and the part of it that is shown.
#[derive(Default)]
struct View {
    page: String,
    /// Number of lines above the first one that is shown.
    top: usize,
    is_frozen: bool,
}

impl View {
    /// Replaces the page, unless it is frozen.
    fn take(&mut self, page: &str) {
        if !self.is_frozen {
            page.clone_into(&mut self.page);
        }
    }

    /// Applies the keys in `typed`; returns whether the watch is to end.
    fn press(&mut self, typed: &[u8], rows: usize) -> bool {
        let mut rest = typed;
        while let Some(first) = rest.first() {
            // Arrows, in both modes of a terminal (xterm's DECCKM).
            let (key, length) = match rest {
                [0x1b, b'[' | b'O', b'A', ..] => (b'k', 3),
                [0x1b, b'[' | b'O', b'B', ..] => (b'j', 3),
                _ => (*first, 1),
            };
            rest = &rest[length..];
            match key {
                b'q' => return true,
                b'j' => self.top = (self.top + 1).min(self.last_top(rows)),
                b'k' => self.top = self.top.min(self.last_top(rows)).saturating_sub(1),
                b' ' => self.is_frozen = !self.is_frozen,
                _ => {}
            }
        }
        false
    }

    /// Returns the number of lines above the last part of the page; the last row is for the keys.
    fn last_top(&self, rows: usize) -> usize {
        self.page.lines().count().saturating_sub(rows.saturating_sub(1))
    }

    /// Returns what `rows` rows show.
    fn shown(&self, rows: usize) -> Vec<&str> {
        let (top, last) = (self.top.min(self.last_top(rows)), self.last_top(rows));
        let mut lines: Vec<&str> = self.page.lines().skip(top).collect();
        lines.truncate(rows.saturating_sub(1));
        lines.push(match (self.is_frozen, last > top) {
            (true, _) => "FROZEN: space goes on, q ends",
            (false, true) => "more below: arrows, space, q",
            (false, false) => "arrows scroll, space freezes, q ends",
        });
        lines
    }
}

/// The alternate screen; dropping it restores the previous content and the terminal's modes.
pub struct Screen(View);

impl Screen {
    /// Enters the alternate screen, and stops the echo of keys if standard input is a terminal;
    /// `None` if standard output is no terminal that has an alternate screen.
    pub fn open() -> Option<Self> {
        let is_dumb = std::env::var_os("TERM").is_none_or(|term| term == "dumb");
        if is_dumb || !io::stdout().is_terminal() {
            return None;
        }
        process::note_alternate_screen(true);
        process::silence_keys();
        // The message of a panic is for the screen that stays.
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            leave();
            before(panic);
        }));
        let screen = Self(View::default());
        write(ENTER).ok()?;
        Some(screen)
    }

    /// Draws a page, or the part of it that the terminal has rows for.
    ///
    /// # Errors The terminal is closed.
    pub fn show(&mut self, page: &str) -> Result<(), Error> {
        self.0.take(page);
        self.draw()
    }

    /// Applies the keys that were pressed; returns whether the watch is to end.
    ///
    /// # Errors The terminal is closed.
    pub fn press_keys(&mut self) -> Result<bool, Error> {
        let mut typed = [0; 64];
        let typed = process::typed_keys(&mut typed);
        if typed.is_empty() {
            return Ok(false);
        }
        let ends = self.0.press(typed, rows());
        self.draw()?;
        Ok(ends)
    }

    fn draw(&self) -> Result<(), Error> {
        // Erases the rest of each line, and everything below the last one.
        let text = self.0.shown(rows()).join("\x1b[K\r\n");
        write(&format!("\x1b[H{text}\x1b[K\x1b[J")).map_err(Error::Write)
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        leave();
    }
}

/// Restores the terminal, once.
fn leave() {
    if process::note_alternate_screen(false) {
        process::restore_keys();
        let _ = write(LEAVE);
    }
}

fn rows() -> usize {
    terminal_size::terminal_size().map_or(ROWS, |(_, height)| usize::from(height.0))
}

fn write(text: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes())?;
    out.flush()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_scroll_freeze_and_end() {
        let mut view = View::default();
        view.take("one\ntwo\nthree\nfour");
        assert_eq!(view.shown(3), ["one", "two", "more below: arrows, space, q"]);
        assert!(!view.press(b"\x1b[B\x1bOBjj", 3), "arrows do not end it");
        assert_eq!(view.shown(3)[..2], ["three", "four"], "it ends with the page");
        assert!(!view.press(b"\x1b[A ", 3));
        view.take("new");
        assert_eq!(view.shown(3)[..2], ["two", "three"], "frozen");
        assert!(view.shown(3)[2].starts_with("FROZEN"));
        view.press(b" ", 3);
        view.take("new");
        assert_eq!(view.shown(3)[0], "new", "a shorter page begins at its top");
        assert!(view.press(b"xq", 3));
    }
}
