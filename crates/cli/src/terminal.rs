//! What the terminal can show, and the one key it listens to.

use crate::args::{Color, Display};
use std::env;
use std::io::IsTerminal;
use std::sync::atomic::{AtomicBool, Ordering};
use tcpwhy_core::report::{Glyphs, Look};

/// Wider lines are hard to read.
const WIDTH_MAX: usize = 140;
/// Where there is no terminal.
const WIDTH_PIPE: usize = 80;

/// How to show a report: asked for, or what standard output is.
pub fn look(asked: &Display, all: bool) -> Look {
    let terminal = std::io::stdout().is_terminal();
    let columns = || {
        let size = terminal.then(|| terminal_size::terminal_size_of(std::io::stdout())).flatten();
        size.map_or(WIDTH_PIPE, |(width, _)| usize::from(width.0).clamp(40, WIDTH_MAX))
    };
    Look {
        width: asked.width.map_or_else(columns, usize::from),
        colour: match asked.color {
            Color::Always => true,
            Color::Never => false,
            Color::Auto => terminal && !no_color() && !dumb(),
        },
        all,
        glyphs: if utf8() { Glyphs::Unicode } else { Glyphs::Ascii },
    }
}

/// <https://no-color.org>: set, and not empty.
fn no_color() -> bool {
    env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty())
}

fn dumb() -> bool {
    env::var_os("TERM").is_some_and(|term| term == "dumb")
}

/// Returns whether the locale writes UTF-8: the first of these that is set decides (POSIX). Without
/// any, as in containers, UTF-8 is what is read nowadays.
fn utf8() -> bool {
    let set = |name| env::var(name).ok().filter(|value| !value.is_empty());
    let locale = ["LC_ALL", "LC_CTYPE", "LANG"].into_iter().find_map(set);
    locale.is_none_or(|locale| {
        let locale = locale.to_ascii_lowercase();
        locale.contains("utf-8") || locale.contains("utf8")
    })
}

/// Whether Ctrl-C was pressed, once that is [taken notice of](interruptible).
static INTERRUPTED: AtomicBool = AtomicBool::new(false);

/// Takes notice of the first Ctrl-C in the flag, and ends the program at the second.
pub fn interruptible() -> &'static AtomicBool {
    const EXIT_INTERRUPTED: i32 = 130;
    let handler = || {
        if INTERRUPTED.swap(true, Ordering::Relaxed) {
            std::process::exit(EXIT_INTERRUPTED);
        }
    };
    // Without a handler Ctrl-C simply ends the program, as it would have.
    let _ = ctrlc::set_handler(handler);
    &INTERRUPTED
}

/// Returns whether Ctrl-C was pressed.
pub fn is_interrupted() -> bool {
    INTERRUPTED.load(Ordering::Relaxed)
}
