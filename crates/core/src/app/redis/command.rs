//! The commands of Redis, with what has to be known of them to follow their responses.

use crate::app::kind::Label;
use crate::app::listed::{REDIS_COMMANDS, WORD_MAX};
use hashbrown::HashMap;
use std::sync::LazyLock;

/// A command that is listed.
pub(super) struct Command {
    /// Its name, in capital letters.
    pub name: Label,
    /// How it is answered.
    pub answered: Answered,
    /// Its second word is part of its kind.
    pub has_subcommands: bool,
}

/// How a command is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Answered {
    /// By one response.
    Once,
    /// By a response that waits until data is available: the client asked for the wait, so it is not
    /// latency (redis.io, "Blocking commands").
    OnceThereIsData,
    /// By a response that waits if the word `BLOCK` comes before the streams' names.
    AtOnceUnlessBlocking,
    /// By one message for each channel that the command names (redis.io, "Pub/Sub").
    ForEachChannel,
    /// By a response, and then a line for each command of any client (redis.io, "MONITOR").
    WithoutEnd,
    /// By the stream of changes (redis.io, "Replication").
    ByReplication,
    /// By one response, but for `REPLCONF ACK`, which a receiver of the stream of changes sends.
    UnlessAck,
    /// By one response, unless `CLIENT REPLY` says otherwise (redis.io, "CLIENT REPLY").
    AsReplySays,
}

/// Commands that are answered in another way than by one response.
const OTHERWISE_ANSWERED: [(&str, Answered); 21] = [
    ("blpop", Answered::OnceThereIsData),
    ("brpop", Answered::OnceThereIsData),
    ("brpoplpush", Answered::OnceThereIsData),
    ("blmove", Answered::OnceThereIsData),
    ("blmpop", Answered::OnceThereIsData),
    ("bzpopmin", Answered::OnceThereIsData),
    ("bzpopmax", Answered::OnceThereIsData),
    ("bzmpop", Answered::OnceThereIsData),
    ("xread", Answered::AtOnceUnlessBlocking),
    ("xreadgroup", Answered::AtOnceUnlessBlocking),
    ("subscribe", Answered::ForEachChannel),
    ("psubscribe", Answered::ForEachChannel),
    ("ssubscribe", Answered::ForEachChannel),
    ("unsubscribe", Answered::ForEachChannel),
    ("punsubscribe", Answered::ForEachChannel),
    ("sunsubscribe", Answered::ForEachChannel),
    ("monitor", Answered::WithoutEnd),
    ("psync", Answered::ByReplication),
    ("sync", Answered::ByReplication),
    ("replconf", Answered::UnlessAck),
    ("client", Answered::AsReplySays),
];

/// Commands whose second word is part of their kind.
const WITH_SUBCOMMANDS: [&str; 16] = [
    "acl", "client", "cluster", "command", "config", "debug", "function", "latency", "memory",
    "module", "object", "pubsub", "script", "sentinel", "xgroup", "xinfo",
];

static COMMANDS: LazyLock<HashMap<&'static [u8], Command>> = LazyLock::new(|| {
    let listed = REDIS_COMMANDS.words().map(|word| (word.as_bytes(), Command::listed(word)));
    listed.collect()
});

impl Command {
    /// Returns the command with the name `word`, in small or capital letters.
    pub fn of(word: &[u8]) -> Option<&'static Self> {
        let mut small = [0; WORD_MAX];
        let small = small.get_mut(..word.len())?;
        small.copy_from_slice(word);
        small.make_ascii_lowercase();
        COMMANDS.get(&*small)
    }

    /// Returns whether `word` is its name, in small or capital letters.
    pub fn is_named(&self, word: &[u8]) -> bool {
        self.name.as_bytes().eq_ignore_ascii_case(word)
    }

    fn listed(word: &str) -> Self {
        let mut name = Label::default();
        name.push_upper(word.as_bytes());
        let answered = OTHERWISE_ANSWERED.iter().find(|(it, _)| *it == word);
        Self {
            name,
            answered: answered.map_or(Answered::Once, |(_, answered)| *answered),
            has_subcommands: WITH_SUBCOMMANDS.contains(&word),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_with_a_rule_of_its_own_is_listed() {
        let mut special = OTHERWISE_ANSWERED.iter().map(|(word, _)| *word).chain(WITH_SUBCOMMANDS);
        assert!(special.all(|word| Command::of(word.as_bytes()).is_some()));
    }

    #[test]
    fn a_command_is_found_in_any_letters() {
        let name = |word: &[u8]| Command::of(word).map(|it| it.name.to_string());
        assert_eq!(name(b"XInfo").as_deref(), Some("XINFO"));
        assert!(name(b"xinf").is_none() && name(b"").is_none() && name(&[b'x'; 40]).is_none());
    }
}
