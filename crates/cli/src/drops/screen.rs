//! A text on a terminal that is redrawn in place.

use crate::error::Error;
use crate::output;
use std::io::IsTerminal;

/// Assumed number of lines if the terminal does not report its height.
const LINES: usize = 24;

/// The text that the terminal shows now.
pub struct Screen {
    is_live: bool,
    lines: usize,
}

impl Screen {
    /// Uses standard output; redraws only if that is a terminal and the output is text.
    pub fn new(json: bool) -> Self {
        Self { is_live: !json && std::io::stdout().is_terminal(), lines: 0 }
    }

    /// Returns whether the output is redrawn on a terminal.
    pub fn is_live(&self) -> bool {
        self.is_live
    }

    /// Replaces the shown text; lines that do not fit are cut off.
    pub fn show(&mut self, text: &str) -> Result<(), Error> {
        let height = terminal_size::terminal_size_of(std::io::stdout())
            .map_or(LINES, |(_, height)| usize::from(height.0));
        self.clear()?;
        let lines: Vec<&str> = text.lines().take(height.saturating_sub(1)).collect();
        self.lines = lines.len();
        output::print(&(lines.join("\n") + "\n"))
    }

    /// Removes the shown text.
    pub fn clear(&mut self) -> Result<(), Error> {
        if self.lines > 0 {
            // Moves the cursor to the first line of the text and erases everything below (ECMA-48
            // CPL, ED).
            output::print_unchanged(&format!("\x1b[{}F\x1b[J", self.lines))?;
            self.lines = 0;
        }
        Ok(())
    }
}
