//! Properties of the terminal, and the handling of Ctrl-C.

use crate::args::{Color, Display, Spoken};
use std::env;
use std::io::IsTerminal;
use std::sync::atomic::{AtomicBool, Ordering};
use tcpwhy_core::model::Language;
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
        language: Language::English,
    }
}

/// Returns how to show a report of a command that is translated: also in the language that was asked for, else
/// in that of the locale.
pub fn look_in(spoken: Spoken, asked: &Display, all: bool) -> Look {
    let language = spoken.lang.unwrap_or_else(language);
    let english = look(asked, all);
    // Only English can be written in ASCII.
    let glyphs = if language == Language::English { english.glyphs } else { Glyphs::Unicode };
    Look { language, glyphs, ..english }
}

/// Returns the language of the locale, if there are texts in it and the locale can show them; else English.
pub fn language() -> Language {
    let locale = first_set(["LC_ALL", "LC_MESSAGES", "LANG"]).filter(|_| utf8());
    locale.and_then(|locale| Language::of_locale(&locale)).unwrap_or_default()
}

/// Returns the first of these variables that is set; the others do not count then (POSIX).
fn first_set(names: [&str; 3]) -> Option<String> {
    names.into_iter().find_map(|name| env::var(name).ok().filter(|value| !value.is_empty()))
}

/// Returns whether NO_COLOR is set and not empty (<https://no-color.org>).
fn no_color() -> bool {
    env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty())
}

fn dumb() -> bool {
    env::var_os("TERM").is_some_and(|term| term == "dumb")
}

/// Returns whether the locale uses UTF-8. If none is set, as in containers, UTF-8 is assumed.
fn utf8() -> bool {
    let locale = first_set(["LC_ALL", "LC_CTYPE", "LANG"]);
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
