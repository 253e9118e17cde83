//! An entry of the audit: a setting, limit or queue of this host, and what it explains.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use tcpwhy_core::model::Cause;

/// Layer of the host, from the program down to the cable.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schemas", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Layer {
    /// Settings and limits of programs, name resolution.
    Application,
    /// Sockets: queues, buffers, ports.
    Socket,
    /// TCP and UDP of the kernel.
    Transport,
    /// IP, packet filter, neighbours.
    Network,
    /// Interfaces, queues and interrupts.
    Link,
}

impl Layer {
    /// All layers, top down.
    pub const ALL: [Self; 5] =
        [Self::Application, Self::Socket, Self::Transport, Self::Network, Self::Link];

    /// Returns the name of the layer.
    pub fn name(self) -> &'static str {
        match self {
            Self::Application => "application",
            Self::Socket => "socket",
            Self::Transport => "transport",
            Self::Network => "network",
            Self::Link => "link",
        }
    }
}

/// Evidence that an entry explains a symptom.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemas", derive(schemars::JsonSchema))]
#[serde(tag = "kind", rename_all = "snake_case")]
#[cfg_attr(feature = "schemas", schemars(rename = "EntryEvidence"))]
pub enum Evidence {
    /// A kernel counter grew during the sample.
    Counter {
        /// `TABLE.COUNTER`, as the kernel spells both; `NAME.COUNTER` of an interface;
        /// `cpu.stat.COUNTER` of a control group.
        counter: String,
        /// The increase.
        #[cfg_attr(feature = "schemas", schemars(range(min = 1)))]
        grew_by: u64,
        /// Length of the sample, ns.
        over_ns: u64,
    },
    /// State of the kernel during the sample.
    State {
        /// A sentence without the full stop.
        sentence: String,
    },
    /// A finding of the report that was passed.
    Report {
        /// Number of the finding in the report, from 1.
        #[cfg_attr(feature = "schemas", schemars(range(min = 1)))]
        finding: usize,
        /// Cause of the finding.
        cause: Cause,
        /// Headline of the finding.
        headline: String,
    },
}

/// Recommended change.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemas", derive(schemars::JsonSchema))]
pub struct Change {
    /// Description of the change for a reader.
    pub what: String,
    /// The exact command; `None` where the change is made in a program or a file.
    pub command: Option<String>,
    /// Possible harm of the change.
    pub risk: String,
    /// Command that restores the present value, or the text to put back.
    pub undo: String,
}

/// Order of entries: how directly an entry explains a symptom.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum Rank {
    /// A limit at which the kernel drops or refuses at this moment.
    Limit,
    /// A setting that makes it slow.
    #[default]
    Setting,
    /// A consequence of another entry or of the path.
    Consequence,
}

/// One line of the audit.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemas", derive(schemars::JsonSchema))]
pub struct Entry {
    /// Id of the check that made it.
    pub check: Cow<'static, str>,
    /// Layer of the host.
    pub layer: Layer,
    /// Name of the object or setting.
    pub what: String,
    /// Present value.
    pub value: String,
    /// Reason why it matters.
    pub why: String,
    /// The causes that it explains now. None with evidence: the drops are the symptom themselves.
    pub explains: Vec<Cause>,
    /// What shows it; none: it explains no present symptom.
    pub evidence: Vec<Evidence>,
    /// Recommended change; `None` if none is needed on this host.
    pub change: Option<Change>,
    /// How directly it explains the symptom.
    #[serde(skip)]
    pub rank: Rank,
}

impl Entry {
    /// Makes an entry that explains nothing so far.
    pub fn new(
        check: &'static str,
        layer: Layer,
        what: impl Into<String>,
        value: impl Into<String>,
        why: impl Into<String>,
    ) -> Self {
        Self {
            check: check.into(),
            layer,
            what: what.into(),
            value: value.into(),
            why: why.into(),
            explains: Vec::new(),
            evidence: Vec::new(),
            change: None,
            rank: Rank::default(),
        }
    }

    /// Adds the causes that it explains, unless there is no evidence.
    #[must_use]
    pub fn explains(mut self, causes: &[Cause], evidence: Vec<Evidence>) -> Self {
        if !evidence.is_empty() {
            for &cause in causes {
                if !self.explains.contains(&cause) {
                    self.explains.push(cause);
                }
            }
            self.evidence.extend(evidence);
        }
        self
    }

    /// Sets how directly it explains.
    #[must_use]
    pub fn ranked(mut self, rank: Rank) -> Self {
        self.rank = rank;
        self
    }

    /// Sets the recommended change.
    #[must_use]
    pub fn change(mut self, change: Change) -> Self {
        self.change = Some(change);
        self
    }

    /// Returns whether the entry explains a present symptom. An entry without a cause (datagrams
    /// that a program loses) is itself the symptom.
    pub fn is_loud(&self) -> bool {
        !self.evidence.is_empty()
    }

    /// Place in the audit: what explains the report's first finding, then limits that are hit now,
    /// by how often; then settings; then what follows from others.
    pub(super) fn key(&self) -> (usize, Rank, std::cmp::Reverse<u64>, Layer) {
        let finding = self.evidence.iter().filter_map(|evidence| match evidence {
            Evidence::Report { finding, .. } => Some(*finding),
            _ => None,
        });
        let grew = self.evidence.iter().filter_map(|evidence| match evidence {
            Evidence::Counter { grew_by, .. } => Some(*grew_by),
            _ => None,
        });
        let grew = std::cmp::Reverse(grew.max().unwrap_or(0));
        (finding.min().unwrap_or(usize::MAX), self.rank, grew, self.layer)
    }
}

/// Returns a word in the form in which a shell takes it as it is.
pub(super) fn quoted(word: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/._-:@,+=".contains(&byte);
    if !word.is_empty() && word.bytes().all(is_plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

/// Text of `undo` for advice that changes nothing.
const NOTHING: &str = "nothing was changed";

impl Change {
    /// Returns advice to look for the reason at a place; it changes nothing.
    pub fn look(what: impl Into<String>) -> Self {
        Self::by_hand(what, "none", NOTHING)
    }

    /// Returns whether it is only advice to look somewhere.
    pub fn changes_nothing(&self) -> bool {
        self.undo == NOTHING
    }

    /// Returns a change that a command makes.
    pub fn command(
        what: impl Into<String>,
        command: impl Into<String>,
        risk: impl Into<String>,
        undo: impl Into<String>,
    ) -> Self {
        Self {
            what: what.into(),
            command: Some(command.into()),
            risk: risk.into(),
            undo: undo.into(),
        }
    }

    /// Returns a change that the user makes in a program or a file.
    pub fn by_hand(
        what: impl Into<String>,
        risk: impl Into<String>,
        undo: impl Into<String>,
    ) -> Self {
        Self { what: what.into(), command: None, risk: risk.into(), undo: undo.into() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shell_takes_names_as_they_are() {
        assert_eq!(quoted("/sys/fs/cgroup/a.slice"), "/sys/fs/cgroup/a.slice");
        assert_eq!(quoted(r"a\x2db.service"), r"'a\x2db.service'");
        assert_eq!(quoted("it's; rm"), r"'it'\''s; rm'");
    }
}
