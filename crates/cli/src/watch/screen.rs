//! The terminal's alternate screen, on which each page replaces the last one.

use crate::error::Error;
use std::io::{self, IsTerminal, Write};
use tcpwhy_live::sys::process;

/// Shows the alternate screen and hides the cursor (xterm's control sequences).
const ENTER: &str = "\x1b[?1049h\x1b[?25l";
const LEAVE: &str = "\x1b[?25h\x1b[?1049l";

/// The alternate screen; dropping it restores the previous content.
pub struct Screen;

impl Screen {
    /// Enters the alternate screen; `None` if standard output is no terminal that has one.
    pub fn open() -> Option<Self> {
        let is_dumb = std::env::var_os("TERM").is_none_or(|term| term == "dumb");
        if is_dumb || !io::stdout().is_terminal() {
            return None;
        }
        process::note_alternate_screen(true);
        let screen = Self;
        write(ENTER).ok()?;
        Some(screen)
    }

    /// Draws as many lines of `page` as the terminal has rows.
    ///
    /// # Errors The terminal is closed.
    pub fn show(&mut self, page: &str) -> Result<(), Error> {
        let rows = terminal_size::terminal_size().map_or(24, |(_, height)| usize::from(height.0));
        let lines: Vec<&str> = page.lines().take(rows.saturating_sub(1)).collect();
        // Erases the rest of each line, and everything below the last one.
        write(&format!("\x1b[H{}\x1b[K\x1b[J", lines.join("\x1b[K\r\n"))).map_err(Error::Write)
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        let _ = write(LEAVE);
        process::note_alternate_screen(false);
    }
}

fn write(text: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes())?;
    out.flush()
}
