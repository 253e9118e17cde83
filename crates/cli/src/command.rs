//! The commands of `tcpwhy`, and which module does each.

use crate::args::Spoken;
use crate::error::{Error, causes};
use crate::meant;
#[cfg(target_os = "linux")]
use crate::sockets;
use crate::{annotate, anonymize, compare, explain, mcp, output, page, program, spoken, terminal};
#[cfg(all(feature = "program", target_os = "linux"))]
use crate::{dns, doctor, drops, host, probe, treat, watch};
#[cfg(feature = "program")]
use crate::{load, man};
use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};
use std::ffi::OsString;
#[cfg(feature = "program")]
use std::path::PathBuf;
use std::process::ExitCode;
use tcpwhy_core::filter::nearest;

/// Text of `--version`: the version, its commit and platform, and the parts that this build lacks.
#[cfg(all(feature = "program", target_os = "linux"))]
const LONG_VERSION: &str = if tcpwhy_live::hooks::BUILT {
    BUILD
} else {
    concat!(
        env!("CARGO_PKG_VERSION"),
        " (",
        env!("TCPWHY_BUILD"),
        ")\nbuilt without kernel hooks, because clang was missing: `drops` reads counters alone,\n\
         `watch` does not see waits of readers and senders, `treat` lists the sockets to find\n\
         new connections. Install clang and build it again."
    )
};
#[cfg(not(all(feature = "program", target_os = "linux")))]
const LONG_VERSION: &str = BUILD;

const BUILD: &str = concat!(env!("CARGO_PKG_VERSION"), " (", env!("TCPWHY_BUILD"), ")");

/// Says why it was slow, how much each cause cost, and who has to change what.
#[derive(Debug, Parser)]
#[command(name = "tcpwhy", version, long_version = LONG_VERSION, about, after_help = explain::EXAMPLES)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
#[command(arg_required_else_help = true, disable_help_subcommand = true)]
struct Arguments {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    explain: explain::Explain,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Reads captures and names what made them slow (the default)
    #[command(after_help = explain::EXAMPLES, arg_required_else_help = true)]
    Explain(Box<explain::Explain>),
    /// Examines a URL or HOST:PORT step by step and says why it is slow (the default for a URL)
    #[cfg(all(feature = "program", target_os = "linux"))]
    #[command(after_help = doctor::EXAMPLES, arg_required_else_help = true)]
    Doctor(Box<doctor::Doctor>),
    /// Reproduces what makes connections slow, with real software, and names it (Linux; tcpwhy-lab)
    #[cfg(feature = "program")]
    #[command(disable_help_flag = true)]
    Lab {
        /// Arguments of the program tcpwhy-lab, which this command runs
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        words: Vec<OsString>,
    },
    /// Writes the report as one HTML page with causes, graphs, ladders and single exchanges
    #[command(after_help = page::EXAMPLES, arg_required_else_help = true)]
    Report(Box<page::ReportPage>),
    /// Says whether a change helped: compares latency and causes of two runs, before and after it
    #[command(after_help = compare::EXAMPLES, arg_required_else_help = true)]
    Compare(Box<compare::Compare>),
    /// Copies a capture and adds what was found as comments at its frames, for Wireshark
    #[command(after_help = annotate::EXAMPLES, arg_required_else_help = true)]
    Annotate(Box<annotate::Annotate>),
    /// Copies a capture with pseudonyms and without payload; the copy gives the same diagnosis
    #[command(after_help = anonymize::EXAMPLES, arg_required_else_help = true)]
    Anonymize(Box<anonymize::Anonymize>),
    /// Serves the diagnosis as tools to an assistant, over the Model Context Protocol
    #[command(after_help = mcp::EXAMPLES, arg_required_else_help = true)]
    Mcp(Box<mcp::Mcp>),
    /// Lists the TCP sockets of the running system: options, limits, queues, and what they cost
    #[cfg(target_os = "linux")]
    #[command(after_help = sockets::EXAMPLES)]
    Sockets(Box<sockets::Sockets>),
    /// Watches the running system: captures live and reports causes as they happen
    #[cfg(all(feature = "program", target_os = "linux"))]
    #[command(after_help = watch::EXAMPLES)]
    Watch(Box<watch::Watch>),
    /// Audits this host: says what explains a present symptom, what to change and how to undo it
    #[cfg(all(feature = "program", target_os = "linux"))]
    #[command(after_help = host::EXAMPLES)]
    Host(Box<host::Host>),
    /// Shows which packets the kernel drops, why, where, and what to do
    #[cfg(all(feature = "program", target_os = "linux"))]
    #[command(after_help = drops::EXAMPLES)]
    Drops(Box<drops::Drops>),
    /// Changes one thing on the running system, measures the effect, and undoes the change
    #[cfg(all(feature = "program", target_os = "linux"))]
    #[command(after_help = treat::EXAMPLES)]
    Treat(Box<treat::Treat>),
    /// Resolves a name as programs do, server by server, and says what was slow
    #[cfg(all(feature = "program", target_os = "linux"))]
    #[command(after_help = dns::EXAMPLES, arg_required_else_help = true)]
    Dns(Box<dns::Dns>),
    /// Sends HTTP requests, measures them, and says what made the slow ones slow
    #[cfg(feature = "program")]
    #[command(after_help = load::EXAMPLES, arg_required_else_help = true)]
    Load(Box<load::Load>),
    /// Measures the path to a server: round trips, hops, path MTU, TLS and HTTP phases
    #[cfg(all(feature = "program", target_os = "linux"))]
    #[command(after_help = probe::EXAMPLES, arg_required_else_help = true)]
    Probe(Box<probe::Probe>),
    /// Reads, measures or changes a running Linux system
    #[cfg(not(target_os = "linux"))]
    #[command(hide = true, disable_help_flag = true)]
    #[command(name = "watch", aliases = ["dns", "doctor", "drops", "host", "probe", "sockets", "treat"])]
    OfLinux {
        /// Arguments of the command
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        words: Vec<OsString>,
    },
    /// Prints this help, the help of a command, or the manual of a cause
    Help {
        /// A command, or a cause
        #[arg(value_name = "COMMAND|CAUSE")]
        words: Vec<String>,

        #[command(flatten)]
        spoken: Spoken,
    },
    /// Writes the man pages of all commands into a folder
    #[cfg(feature = "program")]
    Man {
        /// The folder
        #[arg(value_hint = clap::ValueHint::DirPath)]
        folder: PathBuf,
    },
    /// Prints a completion script for a shell
    #[cfg(feature = "program")]
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
}

/// The commands of the program that the Python package does not have, without the feature `program`:
/// they need the network or the kernel, or describe the program's arguments to the system.
#[cfg(not(feature = "program"))]
const ABSENT: [&str; 11] = [
    "completions",
    "doctor",
    "dns",
    "drops",
    "host",
    "lab",
    "load",
    "man",
    "probe",
    "treat",
    "watch",
];

/// Returns the error for a command that only the program has.
#[cfg(not(feature = "program"))]
fn absent(command: Option<&str>) -> Result<(), Error> {
    match command.filter(|command| ABSENT.contains(command)) {
        Some(command) => Err(Error::absent(command, &ABSENT)),
        None => Ok(()),
    }
}

/// Runs the program `tcpwhy` with `words`, of which the first is its name.
pub fn main(words: impl Iterator<Item = OsString>) -> ExitCode {
    let words = with_command(words);
    let language = spoken::language(spoken::of_words(&words));
    spoken::speak(language);
    #[cfg(not(feature = "program"))]
    if let Err(error) = absent(words.get(1).and_then(|word| word.to_str())) {
        return program::ended(Err(error));
    }
    let command = spoken::translated(Arguments::command(), language);
    let parsed = command.try_get_matches_from(words);
    let arguments = match parsed.and_then(|matches| Arguments::from_arg_matches(&matches)) {
        Ok(arguments) => arguments,
        Err(words) => return program::print_parser_output(&words),
    };
    let done = match arguments.command {
        Some(Command::Explain(arguments)) => explained(&arguments),
        #[cfg(feature = "program")]
        Some(Command::Lab { words }) => lab(&words),
        #[cfg(all(feature = "program", target_os = "linux"))]
        Some(Command::Doctor(arguments)) => doctor::run(&arguments),
        #[cfg(target_os = "linux")]
        Some(Command::Sockets(arguments)) => sockets::run(&arguments),
        #[cfg(all(feature = "program", target_os = "linux"))]
        Some(Command::Watch(arguments)) => watch::run(&arguments),
        #[cfg(all(feature = "program", target_os = "linux"))]
        Some(Command::Host(arguments)) => host::run(&arguments),
        #[cfg(all(feature = "program", target_os = "linux"))]
        Some(Command::Drops(arguments)) => drops::run(&arguments),
        #[cfg(all(feature = "program", target_os = "linux"))]
        Some(Command::Treat(arguments)) => treat::run(&arguments),
        #[cfg(all(feature = "program", target_os = "linux"))]
        Some(Command::Dns(arguments)) => dns::run(&arguments),
        #[cfg(not(target_os = "linux"))]
        Some(Command::OfLinux { .. }) => Err(Error::NotLinux),
        #[cfg(feature = "program")]
        Some(Command::Load(arguments)) => load::run(&arguments),
        #[cfg(all(feature = "program", target_os = "linux"))]
        Some(Command::Probe(arguments)) => probe::run(&arguments),
        Some(Command::Annotate(arguments)) => annotate::run(&arguments),
        Some(Command::Mcp(arguments)) => mcp::run(&arguments),
        Some(Command::Report(arguments)) => page::run(&arguments),
        Some(Command::Anonymize(arguments)) => anonymize::run(&arguments),
        Some(Command::Compare(compare)) => compare::run(&compare),
        Some(Command::Help { words, spoken }) => help(&words, spoken),
        #[cfg(feature = "program")]
        Some(Command::Man { folder }) => man::run(Arguments::command(), &folder),
        #[cfg(feature = "program")]
        Some(Command::Completions { shell }) => {
            program::completions(shell, Arguments::command(), "tcpwhy")
        }
        None => explained(&arguments.explain),
    };
    program::ended(done)
}

/// Reports on captures. If the missing file is a mistyped command or cause, the error says so.
fn explained(asked: &explain::Explain) -> Result<ExitCode, Error> {
    explain::run(asked).map_err(|error| match &error {
        Error::Missing { path, .. } => match (meant::target_hint(path), meant(path)) {
            (Some(hint), _) => Error::NoTarget { path: path.clone(), hint },
            (None, Some(meant)) => Error::Mistyped { path: path.clone(), meant },
            (None, None) => error,
        },
        _ => error,
    })
}

/// Returns the names of all commands.
fn names() -> Vec<String> {
    let command = Arguments::command();
    command.get_subcommands().map(|it| it.get_name().to_owned()).collect()
}

/// Returns the command that `word` probably means; for a cause, the command that prints its manual.
fn meant(word: &str) -> Option<String> {
    let names = names();
    if let Some(command) = nearest(word, names.iter().map(String::as_str)) {
        return Some(command.to_owned());
    }
    nearest(word, causes()).map(|cause| format!("explain {cause}"))
}

/// Prints the general help, that of a command, or the manual of a cause.
fn help(words: &[String], spoken: Spoken) -> Result<ExitCode, Error> {
    #[cfg(not(feature = "program"))]
    absent(words.first().map(String::as_str))?;
    if let [word] = words
        && let Some(manual) =
            explain::named_manual(word, &terminal::look_in(spoken, &crate::args::PLAIN, false))
    {
        output::print(&manual)?;
        return Ok(ExitCode::SUCCESS);
    }
    #[cfg(feature = "program")]
    if let Some((_, words)) = words.split_first().filter(|(first, _)| *first == "lab") {
        let words = words.iter().map(OsString::from);
        return lab(&[OsString::from("help")].into_iter().chain(words).collect::<Vec<_>>());
    }
    let command = spoken::translated(Arguments::command(), spoken::language(spoken));
    output::print(&program::help(command, words).map_err(no_help)?)?;
    Ok(ExitCode::SUCCESS)
}

/// Returns the error for `help` with a word that is neither a command nor a cause.
fn no_help(word: String) -> Error {
    let known: Vec<String> = names().into_iter().chain(causes().map(str::to_owned)).collect();
    let meant = nearest(&word, known.iter().map(String::as_str));
    let meant = meant.map(|meant| format!(", did you mean `{meant}`?")).unwrap_or_default();
    Error::NoHelp { word, meant }
}

/// Runs the program `tcpwhy-lab` in place of this one, so that signals and the exit status are its
/// own.
#[cfg(all(feature = "program", target_os = "linux"))]
fn lab(words: &[OsString]) -> Result<ExitCode, Error> {
    use std::os::unix::process::CommandExt;
    let lab = program::companion("tcpwhy-lab").ok_or(Error::NoLab)?;
    let source = std::process::Command::new(&lab).args(words).exec();
    Err(Error::Lab { path: lab.display().to_string(), source })
}

/// The lab exists on Linux only.
#[cfg(all(feature = "program", not(target_os = "linux")))]
fn lab(_: &[OsString]) -> Result<ExitCode, Error> {
    Err(Error::NotLinux)
}

/// Returns the command line with the command inserted that a URL or `HOST:PORT` stands for, as the
/// first word that is neither an option nor the value of one.
pub fn with_command(words: impl Iterator<Item = OsString>) -> Vec<OsString> {
    let mut words: Vec<OsString> = words.collect();
    if first_operand(&words).is_some_and(meant::is_target) {
        words.insert(1, "doctor".into());
    }
    words
}

/// Returns the first word that is neither an option nor the value of one.
fn first_operand(words: &[OsString]) -> Option<&str> {
    let mut words = words.iter().skip(1);
    while let Some(word) = words.next() {
        let text = word.to_string_lossy();
        if !text.starts_with('-') || text == "-" {
            return word.to_str();
        }
        if takes_value(&text) {
            words.next();
        }
    }
    None
}

/// Returns whether the next word is the value of this option, of captures or of a target.
fn takes_value(option: &str) -> bool {
    let mut command = Arguments::command();
    command.build();
    let doctor = command.get_subcommands().filter(|it| it.get_name() == "doctor");
    let arguments = command.get_arguments().chain(doctor.flat_map(|it| it.get_arguments()));
    let is_named = |it: &&clap::Arg| {
        let short = it.get_short().map(|short| format!("-{short}"));
        let long = it.get_long().map(|long| format!("--{long}"));
        [short, long].iter().flatten().any(|name| name == option)
    };
    let mut named = arguments.filter(is_named);
    named.any(|it| it.get_action().takes_values() && !it.is_require_equals_set())
}

#[cfg(test)]
mod tests {
    use super::Arguments;
    use clap::CommandFactory;

    include!("../tests/command/outputs/paths.rs");
    include!("../tests/command/outputs/arguments.rs");

    /// The main commands have all of their help in each language, the others their description.
    #[test]
    fn help_is_translated() {
        use tcpwhy_core::model::Language;
        let command = crate::spoken::translated(Arguments::command(), Language::Chinese);
        let is_chinese = |text: Option<String>| {
            text.is_some_and(|text| {
                text.chars().any(|char| ('\u{4e00}'..='\u{9fff}').contains(&char))
            })
        };
        let mut missing = Vec::new();
        let main = ["explain", "report", "compare", "help"];
        let parts = command.get_subcommands().filter(|part| main.contains(&part.get_name()));
        for part in std::iter::once(&command).chain(parts) {
            for argument in part.get_arguments().filter(|argument| !argument.is_hide_set()) {
                let help = argument.get_help().map(ToString::to_string);
                if !is_chinese(help) {
                    missing.push(format!("{} {}", part.get_name(), argument.get_id()));
                }
            }
        }
        for part in command.get_subcommands().filter(|part| !part.is_hide_set()) {
            if !is_chinese(part.get_about().map(ToString::to_string)) {
                missing.push(part.get_name().to_owned());
            }
        }
        assert!(missing.is_empty(), "{missing:?}");
    }

    fn command_of(words: &[&str]) -> Option<String> {
        let words = [&["tcpwhy"], words].concat();
        let words = super::with_command(words.iter().map(std::ffi::OsString::from));
        (words[1] == "doctor").then(|| words[2..].join(" ".as_ref()).into_string().expect("text"))
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn a_target_is_found_behind_options_and_their_values() {
        for words in [
            &["http://host/"][..],
            &["host:80"],
            &["--json", "host:80"],
            &["-X", "POST", "--body", "a:1", "http://host/"],
            &["--timeout", "1s", "--load=5", "http://host/"],
        ] {
            assert_eq!(command_of(words), Some(words.join(" ")));
        }
        for words in [
            &["--filter", "after 22:13:20", "f.pcap"][..],
            &["--connection", "10.0.0.1:40000", "f.pcap"],
            &["--filter=port 1", "f.pcap"],
            &["load", "http://host/"],
            &["f.pcap", "http://host/"],
        ] {
            assert_eq!(command_of(words), None, "{words:?}");
        }
    }

    /// Tests of outputs go through the table, so that none is forgotten.
    #[test]
    fn every_argument_that_is_a_path_is_known_as_input_or_output() {
        let mut found = Vec::new();
        let mut command = Arguments::command();
        command.build();
        collect(&command, "", &mut found);
        let known = PATHS.iter().filter(|it| !it.command.starts_with("lab"));
        let mut known: Vec<_> =
            known.map(|it| (it.command.to_owned(), it.argument.to_owned())).collect();
        found.sort();
        known.sort();
        assert_eq!(found, known, "each needs its row in tests/command/outputs/paths.rs");
    }
}
