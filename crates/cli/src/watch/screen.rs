//! The terminal's alternate screen, on which the view is drawn, and its keys.

use super::view::{Ended, Fixed, View};
use crate::error::Error;
use crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use ratatui::backend::CrosstermBackend;
use ratatui::layout::Rect;
use ratatui::{Terminal, TerminalOptions, Viewport};
use std::io::{self, IsTerminal, Write};
use std::time::Duration;
use tcpwhy_core::report::Look;
use tcpwhy_live::sys::process;

/// Shows the alternate screen and hides the cursor (xterm's control sequences).
const ENTER: &str = "\x1b[?1049h\x1b[?25l";
const LEAVE: &str = "\x1b[?25h\x1b[?1049l";

/// Size of a terminal that does not state it.
const SIZE: Rect = Rect::new(0, 0, 80, 24);

/// Longest wait for the rest of a key's bytes.
const KEY_WAIT: Duration = Duration::from_millis(1);

/// The bytes of one drawing, written at once. A drawing that a panic interrupts is not written.
#[derive(Default)]
struct Bytes(Vec<u8>);

impl Write for Bytes {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        let written = write(&self.0);
        self.0.clear();
        written
    }
}

/// The alternate screen; dropping it restores the previous content and the terminal's modes.
pub struct Screen {
    view: View,
    terminal: Terminal<CrosstermBackend<Bytes>>,
    size: Rect,
    has_keys: bool,
    /// There may be keys that were read and not applied yet.
    has_typed: bool,
}

impl Screen {
    /// Enters the alternate screen, and stops the echo of keys if standard input is a terminal;
    /// `None` if standard output is no terminal that has an alternate screen. It opens what it reads
    /// keys from, which a sandbox does not allow.
    pub fn open(look: Look, fixed: Fixed) -> Option<Self> {
        let is_dumb = std::env::var_os("TERM").is_none_or(|term| term == "dumb");
        if is_dumb || !io::stdout().is_terminal() {
            return None;
        }
        let size = size();
        let options = TerminalOptions { viewport: Viewport::Fixed(size) };
        let backend = CrosstermBackend::new(Bytes::default());
        let terminal = Terminal::with_options(backend, options).ok()?;
        process::note_alternate_screen(true);
        let has_keys = process::silence_keys() && event::poll(KEY_WAIT).is_ok();
        // The message of a panic is for the screen that stays.
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            leave();
            before(panic);
        }));
        if look.colour {
            crossterm::style::force_color_output(true);
        }
        let screen =
            Self { view: View::new(look, fixed), terminal, size, has_keys, has_typed: has_keys };
        write(ENTER.as_bytes()).ok()?;
        Some(screen)
    }

    /// Shows the end of an interval.
    ///
    /// # Errors The terminal is closed.
    pub fn show(&mut self, ended: Ended) -> Result<(), Error> {
        self.view.take(ended);
        self.draw()
    }

    /// Applies the keys that were pressed, and the size that the terminal has now; returns whether the
    /// watch is to end.
    ///
    /// # Errors The terminal is closed.
    pub fn press_keys(&mut self) -> Result<bool, Error> {
        let (mut ends, mut is_changed) = (false, size() != self.size);
        // Without the first question, each call would wait.
        self.has_typed |= self.has_keys && process::has_typed_keys();
        while self.has_typed && !ends {
            match event::poll(KEY_WAIT).and_then(|is_there| is_there.then(event::read).transpose())
            {
                Ok(Some(Event::Key(key))) if key.kind != KeyEventKind::Release => {
                    ends = self.press(key);
                    is_changed = true;
                }
                Ok(Some(_)) => {}
                Ok(None) => self.has_typed = false,
                // The terminal is hung up.
                Err(_) => (self.has_typed, self.has_keys) = (false, false),
            }
        }
        if is_changed {
            self.draw()?;
        }
        Ok(ends)
    }

    /// Applies a key; returns whether the watch is to end. Terminals send Alt with a key as the bytes of Esc
    /// and of that key, which are also those of Esc with a key right behind it.
    fn press(&mut self, key: KeyEvent) -> bool {
        match key.modifiers - KeyModifiers::SHIFT {
            KeyModifiers::NONE => self.view.press(key.code),
            KeyModifiers::ALT => self.view.press(KeyCode::Esc) || self.view.press(key.code),
            _ => false,
        }
    }

    /// Draws the view.
    ///
    /// # Errors The terminal is closed.
    pub fn draw(&mut self) -> Result<(), Error> {
        let size = size();
        if size != self.size {
            self.size = size;
            self.terminal.resize(size).map_err(Error::Write)?;
        }
        let drawn = self.terminal.draw(|frame| self.view.draw(frame));
        drawn.map(|_| ()).map_err(Error::Write)
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
        let _ = write(LEAVE.as_bytes());
    }
}

fn size() -> Rect {
    match terminal_size::terminal_size() {
        Some((width, height)) if width.0 > 0 && height.0 > 0 => Rect::new(0, 0, width.0, height.0),
        _ => SIZE,
    }
}

fn write(bytes: &[u8]) -> io::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(bytes)?;
    out.flush()
}

#[cfg(all(test, any(target_arch = "x86_64", target_arch = "aarch64")))]
mod tests {
    use super::*;
    use std::fs::File;
    use std::io::Read;
    use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
    use std::process::{Command, Stdio};

    /// Both ends of a pseudo-terminal: the user's and the program's.
    fn terminal() -> (File, OwnedFd) {
        let (mut user, mut program) = (-1, -1);
        let none = std::ptr::null_mut();
        // SAFETY: it writes two descriptors, which nothing else owns.
        unsafe {
            let result =
                libc::openpty(&raw mut user, &raw mut program, none, none.cast(), none.cast());
            assert_eq!(result, 0);
            (File::from_raw_fd(user), OwnedFd::from_raw_fd(program))
        }
    }

    fn modes(terminal: &OwnedFd) -> libc::tcflag_t {
        // SAFETY: all bytes zero are a valid `termios`, and the call writes one.
        unsafe {
            let mut modes: libc::termios = std::mem::zeroed();
            assert_eq!(libc::tcgetattr(terminal.as_raw_fd(), &raw mut modes), 0);
            modes.c_lflag
        }
    }

    #[test]
    #[ignore = "a_panic_and_an_error_restore_the_terminal starts it on a terminal"]
    fn ends_in_the_midst_of_a_watch() {
        let mut screen = Screen::open(Look::default(), Fixed::default()).expect("a terminal");
        screen.draw().expect("drawn");
        assert!(std::env::var_os("TCPWHY_TEST_PANICS").is_none(), "it panics here");
    }

    #[test]
    fn a_panic_and_an_error_restore_the_terminal() {
        for (variable, ends) in [("TCPWHY_TEST_PANICS", "it panics here"), ("NONE", "1 passed")] {
            let (mut user, program) = terminal();
            let before = modes(&program);
            let stream = || Stdio::from(program.try_clone().expect("a descriptor"));
            let mut command = Command::new(std::env::current_exe().expect("this program"));
            command.args(["--ignored", "--nocapture", "ends_in_the_midst_of_a_watch"]);
            command.env("TERM", "xterm").env(variable, "1");
            command.stdin(stream()).stdout(stream()).stderr(stream());
            let mut child = command.spawn().expect("it runs");
            drop(command);
            child.wait().expect("its end");
            assert_eq!(modes(&program), before, "{ends}");
            drop(program);
            let (mut text, mut buffer) = (Vec::new(), [0; 4096]);
            // Reading fails once no program has the other end.
            while let Ok(read @ 1..) = user.read(&mut buffer) {
                text.extend_from_slice(&buffer[..read]);
            }
            let text = String::from_utf8_lossy(&text);
            let (drawn, after) = text.split_once("\x1b[?1049l").expect("the screen is left");
            assert!(drawn.contains("tcpwhy watch live:"), "{text:?}");
            assert!(after.contains(ends) && !after.contains("tcpwhy watch live:"), "{text:?}");
        }
    }
}
