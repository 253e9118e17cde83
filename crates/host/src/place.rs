//! The network namespace that is audited, and how a command is run in it.

use tcpwhy_live::error::LiveError;
use tcpwhy_live::netns::Netns;

/// The namespace to audit.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum AuditedNamespace {
    /// The caller's own.
    #[default]
    Here,
    /// A namespace by its name under `ip netns`.
    Named(String),
    /// The namespace of a process; name resolution is read as the process sees it.
    Process(u32),
}

impl AuditedNamespace {
    /// Returns the namespace.
    ///
    /// # Errors It does not exist.
    pub fn netns(&self) -> Result<Netns, LiveError> {
        match self {
            Self::Here => Ok(Netns::own()),
            Self::Named(name) => Netns::find(name),
            Self::Process(pid) => Netns::of_process(*pid),
        }
    }

    /// Returns `command` in the form in which a shell outside of the namespace runs it.
    pub fn command(&self, command: &str) -> String {
        match self {
            Self::Here => command.to_owned(),
            Self::Named(name) if name.bytes().all(|byte| byte.is_ascii_digit()) => {
                format!("nsenter -t {name} -n {command}")
            }
            Self::Named(name) => format!("ip netns exec {name} {command}"),
            Self::Process(pid) => format!("nsenter -t {pid} -n {command}"),
        }
    }
}
