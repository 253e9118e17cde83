//! Properties of the terminal, and the handling of Ctrl-C.

use crate::args::{Color, Display};
use std::env;
use std::io::IsTerminal;
use std::sync::atomic::{AtomicBool, Ordering};
use tcpwhy_core::report::{Glyphs, Look};

/// Maximum width, columns: longer lines are hard to read.
const WIDTH_MAX: usize = 140;
/// Width if standard output is not a terminal, columns.
const WIDTH_PIPE: usize = 80;

/// Returns how to show a report: as asked for, else by the properties of standard output.
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

/// Returns whether NO_COLOR is set and not empty (<https://no-color.org>).
fn no_color() -> bool {
    env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty())
}

fn dumb() -> bool {
    env::var_os("TERM").is_some_and(|term| term == "dumb")
}

/// Returns whether the locale uses UTF-8. The first variable that is set decides (POSIX). If none
/// is set, as in containers, UTF-8 is assumed.
fn utf8() -> bool {
    let set = |name| env::var(name).ok().filter(|value| !value.is_empty());
    let locale = ["LC_ALL", "LC_CTYPE", "LANG"].into_iter().find_map(set);
    locale.is_none_or(|locale| {
        let locale = locale.to_ascii_lowercase();
        locale.contains("utf-8") || locale.contains("utf8")
    })
}

/// `true` after Ctrl-C was pressed, once [`interruptible`] was called.
static INTERRUPTED: AtomicBool = AtomicBool::new(false);

/// Makes the first Ctrl-C set the flag, which is returned, and the second one end the program.
pub fn interruptible() -> &'static AtomicBool {
    const EXIT_INTERRUPTED: i32 = 130;
    let handler = || {
        if INTERRUPTED.swap(true, Ordering::Relaxed) {
            #[cfg(target_os = "linux")]
            tcpwhy_live::sys::unfinished::remove_all();
            std::process::exit(EXIT_INTERRUPTED);
        }
    };
    // If no handler can be installed, Ctrl-C ends the program as usual.
    let _ = ctrlc::set_handler(handler);
    &INTERRUPTED
}

/// Returns whether Ctrl-C was pressed.
pub fn is_interrupted() -> bool {
    INTERRUPTED.load(Ordering::Relaxed)
}
