//! Errors while a case is set up or run.

use std::io;

/// An error of the lab; its text is one sentence for the user.
#[derive(Debug, thiserror::Error)]
pub enum LabError {
    /// The kernel's state cannot be read.
    #[error("{0}")]
    Live(#[source] tcpwhy_live::LiveError),
    /// The lab needs root to make network namespaces and TUN devices.
    #[error("the lab builds network namespaces and needs root: run it with sudo")]
    NotRoot,
    /// A step touched the system and failed.
    #[error("{what}: {source}")]
    Io {
        /// The failed action, for example `open /dev/net/tun`.
        what: String,
        /// The system's error.
        source: io::Error,
    },
    /// A program could be started but reported a failure.
    #[error("`{command}` failed: {stderr}")]
    Command {
        /// The command line.
        command: String,
        /// The output on standard error.
        stderr: String,
    },
    /// A program is not installed.
    #[error("{program} is not installed: apt-get install {package}")]
    Missing {
        /// Name of the program.
        program: String,
        /// The Debian package that contains it.
        package: String,
    },
    /// Another action replaced the load and has finished.
    #[error("the load was not run")]
    LoadReplaced,
    /// There is no case of this name.
    #[error("no case is called `{0}`: `list` shows them")]
    UnknownCase(String),
    /// No treatment that can be undone cures the case.
    #[error(
        "{0} has no treatment: its fix is in a program, on the path or at another host; \
         `tcpwhy lab list --json` shows the cases that have one"
    )]
    NotTreatable(String),
    /// The case has no such parameter.
    #[error("this case does not use --{name}; it uses {known}")]
    UnknownParam {
        /// The given name.
        name: String,
        /// The parameters of the case.
        known: String,
    },
    /// A parameter's value cannot be read.
    #[error("`{value}` is not a value for --{name}: try {example}")]
    BadValue {
        /// The parameter.
        name: String,
        /// The given value.
        value: String,
        /// An example of a valid value.
        example: &'static str,
    },
    /// A program did not get ready in time.
    #[error("{what} was not ready within {seconds} s")]
    Timeout {
        /// The program, or the event, that was waited for.
        what: String,
        /// The time limit, seconds.
        seconds: u64,
    },
    /// The run finished, but the fault did not occur as its labels say.
    #[error("the case did not reproduce: {0}")]
    NotReproduced(String),
}

/// Adds the failed action to a system error.
pub trait Doing<T> {
    /// Turns the error into [`LabError::Io`] with `what` in front of it.
    fn doing(self, what: impl Into<String>) -> Result<T, LabError>;
}

impl<T> Doing<T> for io::Result<T> {
    fn doing(self, what: impl Into<String>) -> Result<T, LabError> {
        self.map_err(|source| LabError::Io { what: what.into(), source })
    }
}
