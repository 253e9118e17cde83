//! A text on a terminal that is replaced by the next one.

use crate::error::Error;
use crate::output;
use std::io::IsTerminal;

/// The lines of a terminal whose height is not known.
const LINES: usize = 24;

/// What stands on the terminal.
pub struct Screen {
    is_live: bool,
    lines: usize,
}

impl Screen {
    /// Standard output; live where it is a terminal and text is wanted.
    pub fn new(json: bool) -> Self {
        Self { is_live: !json && std::io::stdout().is_terminal(), lines: 0 }
    }

    /// Returns whether somebody watches.
    pub fn is_live(&self) -> bool {
        self.is_live
    }

    /// Replaces what stands there; what does not fit is cut off.
    pub fn show(&mut self, text: &str) -> Result<(), Error> {
        let height = terminal_size::terminal_size_of(std::io::stdout())
            .map_or(LINES, |(_, height)| usize::from(height.0));
        self.clear()?;
        let lines: Vec<&str> = text.lines().take(height.saturating_sub(1)).collect();
        self.lines = lines.len();
        output::print(&(lines.join("\n") + "\n"))
    }

    /// Removes it.
    pub fn clear(&mut self) -> Result<(), Error> {
        if self.lines > 0 {
            // Cursor to the first line of the text, and all below it erased (ECMA-48 CPL, ED).
            output::print(&format!("\x1b[{}F\x1b[J", self.lines))?;
            self.lines = 0;
        }
        Ok(())
    }
}
