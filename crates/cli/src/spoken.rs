//! The language of the command line: which one is asked for, and the help in it.
//!
//! English help is in the definitions of the arguments. Each other language has one file, `help/LANG.md`: a
//! table with a row for each command and argument, and the examples of commands as sections.

use crate::args::Spoken;
use crate::terminal;
use clap::{Arg, ArgAction, Command};
use std::ffi::OsString;
use std::sync::OnceLock;
use tcpwhy_core::findings::{error_in, row};
use tcpwhy_core::model::Language;

/// Returns the language that the words of a command line ask for. They are not parsed yet, since errors and
/// help, which the parser writes, are in that language too.
pub fn of_words(words: &[OsString]) -> Spoken {
    let mut words = words.iter().map(|word| word.to_string_lossy());
    let value = loop {
        match words.next() {
            None => break None,
            Some(word) if word == "--" => break None,
            Some(word) if word == "--lang" => break words.next(),
            Some(word) => {
                if let Some(value) = word.strip_prefix("--lang=") {
                    break Some(value.to_owned().into());
                }
            }
        }
    };
    Spoken { lang: value.and_then(|id| Language::from_id(&id)) }
}

/// Returns the language of `spoken`, or that of the locale.
pub fn language(spoken: Spoken) -> Language {
    spoken.lang.unwrap_or_else(terminal::language)
}

/// The language of what this process says on standard error.
static ASIDE: OnceLock<Language> = OnceLock::new();

/// Sets the language of what this process says on standard error.
pub fn speak(language: Language) {
    ASIDE.get_or_init(|| language);
}

/// Returns an error or a note, with or without the name of the program in front, in the language that was set,
/// or else in English.
pub fn aside(english: &str) -> String {
    let language = ASIDE.get().copied().unwrap_or_default();
    match english.strip_prefix("tcpwhy: ") {
        Some(words) => format!("tcpwhy{}{}", language.glue().colon, error_in(language, words)),
        None => error_in(language, english),
    }
}

/// Returns whether what this process says on standard error is not in English, the language of the parser of
/// arguments.
pub fn is_translated() -> bool {
    ASIDE.get().is_some_and(|language| texts(*language).is_some())
}

/// Returns the help of a language; `None` for English.
fn texts(language: Language) -> Option<&'static str> {
    match language {
        Language::English => None,
        Language::Chinese => Some(include_str!("help/zh.md")),
    }
}

/// Returns `command` with its help in `language`. Help that the file of the language does not
/// have stays English.
pub fn translated(command: Command, language: Language) -> Command {
    let Some(texts) = texts(language) else { return command };
    with_texts(command, texts, "")
}

fn with_texts(command: Command, texts: &'static str, above: &str) -> Command {
    let id = format!("{above}{}", command.get_name());
    let own = id.strip_prefix("tcpwhy ").unwrap_or(&id).to_owned();
    let mut number = 0;
    let mut command = with_own_flag(command, texts).mut_args(|argument| {
        number += 1;
        // Below a heading of their own, positional arguments would be sorted by name.
        let argument = match argument.is_positional() {
            true => argument.display_order(number),
            false => argument,
        };
        with_help(argument, texts, &own)
    });
    if let Some(about) = row(texts, &own) {
        command = command.about(about).long_about(None::<&str>);
    }
    if let Some(examples) = section(texts, &own) {
        command = command.after_help(examples);
    }
    if let Some(heading) = row(texts, "Commands") {
        command = command.subcommand_help_heading(heading);
    }
    if let Some(usage) = row(texts, "Usage") {
        let head = "{before-help}{about-with-newline}\n";
        command =
            command.help_template(format!("{head}{usage} {{usage}}\n\n{{all-args}}{{after-help}}"));
    }
    let below = format!("{id} ");
    command.mut_subcommands(|part| with_texts(part, texts, &below))
}

/// Returns `command` with a flag for its help that can be translated, in the place of the parser's own.
fn with_own_flag(command: Command, texts: &'static str) -> Command {
    match row(texts, "--help") {
        Some(_) if !command.is_disable_help_flag_set() => {
            let flag = Arg::new("help").short('h').long("help").action(ArgAction::Help);
            command.disable_help_flag(true).arg(flag)
        }
        _ => command,
    }
}

/// Returns `argument` with the help of its command, or else that of all commands that have it.
fn with_help(argument: Arg, texts: &'static str, command: &str) -> Arg {
    let name = match argument.get_long() {
        Some(long) => format!("--{long}"),
        None => argument.get_id().to_string(),
    };
    let heading = if argument.is_positional() { "Arguments" } else { "Options" };
    let argument = match row(texts, heading) {
        Some(heading) => argument.help_heading(heading),
        None => argument,
    };
    let help = row(texts, &format!("{command} {name}")).or_else(|| row(texts, &name));
    match help {
        Some(help) => {
            let long = section(texts, &name).unwrap_or(help);
            argument.help(help).long_help(long)
        }
        None => argument,
    }
}

/// Returns the text below the heading `name`, up to the next heading.
fn section(texts: &'static str, name: &str) -> Option<&'static str> {
    let begin = format!("\n## {name}\n");
    let rest = texts.get(texts.find(&begin)? + begin.len()..)?;
    Some(rest.split("\n## ").next().unwrap_or(rest).trim_matches('\n'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_language_is_found_before_the_words_are_parsed() {
        let lang =
            |words: &[&str]| of_words(&words.iter().map(OsString::from).collect::<Vec<_>>()).lang;
        assert_eq!(lang(&["tcpwhy", "--lang", "zh", "a.pcap"]), Some(Language::Chinese));
        assert_eq!(lang(&["tcpwhy", "compare", "--lang=en"]), Some(Language::English));
        assert_eq!(lang(&["tcpwhy", "--", "--lang", "zh"]), None);
        assert_eq!(lang(&["tcpwhy", "--lang", "xx"]), None);
    }
}
