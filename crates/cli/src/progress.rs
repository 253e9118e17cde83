//! Progress on standard error, if that is a terminal.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::io::IsTerminal;
use std::time::{Duration, Instant};
use tcpwhy_core::capture::Progress;

/// A progress bar appears after this time.
const DELAY: Duration = Duration::from_millis(500);

/// A progress bar; nothing is drawn if standard error is not a terminal.
pub struct Bar {
    started: Instant,
    wanted: bool,
    bar: Option<ProgressBar>,
}

impl Bar {
    /// Creates a bar, if it is `wanted` and standard error is a terminal.
    pub fn new(wanted: bool) -> Self {
        let wanted = wanted && std::io::stderr().is_terminal();
        Self { started: Instant::now(), wanted, bar: None }
    }

    /// Updates the bar.
    pub fn update(&mut self, progress: Progress) {
        if !self.wanted || self.started.elapsed() < DELAY {
            return;
        }
        let bar = self.bar.get_or_insert_with(|| draw(progress.total_bytes));
        bar.set_position(progress.consumed_bytes);
    }
}

impl Drop for Bar {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

/// A line that says what the program waits for, when the time is not known.
#[cfg(target_os = "linux")]
pub struct Waiting(Option<ProgressBar>);

#[cfg(target_os = "linux")]
impl Waiting {
    /// Creates a line, if it is `wanted` and standard error is a terminal.
    pub fn new(wanted: bool) -> Self {
        let draw = || {
            let line = ProgressBar::new_spinner();
            line.set_draw_target(ProgressDrawTarget::stderr_with_hz(10));
            if let Ok(style) = ProgressStyle::with_template("{spinner} {msg}  {elapsed}") {
                line.set_style(style);
            }
            line.enable_steady_tick(Duration::from_millis(100));
            line
        };
        Self((wanted && std::io::stderr().is_terminal()).then(draw))
    }

    /// Replaces the text of the line.
    pub fn tell(&self, what: &str) {
        if let Some(line) = &self.0 {
            line.set_message(what.to_owned());
        }
    }
}

#[cfg(target_os = "linux")]
impl Drop for Waiting {
    fn drop(&mut self) {
        if let Some(line) = &self.0 {
            line.finish_and_clear();
        }
    }
}

fn draw(total_bytes: Option<u64>) -> ProgressBar {
    let (bar, template) = match total_bytes {
        Some(total) => (
            ProgressBar::new(total),
            "{bar:40} {percent} %  {bytes} of {total_bytes}, {eta} left (Ctrl-C: what is known)",
        ),
        None => (ProgressBar::no_length(), "{spinner} {bytes} read (Ctrl-C: what is known)"),
    };
    bar.set_draw_target(ProgressDrawTarget::stderr_with_hz(10));
    if let Ok(style) = ProgressStyle::with_template(template) {
        bar.set_style(style);
    }
    bar
}
