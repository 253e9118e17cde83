// Finds the arguments of a program that are paths: for the tests that the table in `paths.rs` has all
// of them.

use clap::builder::ValueParser;
use clap::{Arg, Command, ValueHint};

fn is_path(arg: &Arg) -> bool {
    let hinted = [ValueHint::AnyPath, ValueHint::FilePath, ValueHint::DirPath];
    arg.get_value_parser().type_id() == ValueParser::path_buf().type_id()
        || hinted.contains(&arg.get_value_hint())
}

/// Adds those of a command and of the commands below it, which `words` name.
fn collect(command: &Command, words: &str, found: &mut Vec<(String, String)>) {
    let paths = command.get_arguments().filter(|arg| is_path(arg));
    found.extend(paths.map(|arg| (words.to_owned(), arg.get_id().to_string())));
    for part in command.get_subcommands() {
        collect(part, format!("{words} {}", part.get_name()).trim(), found);
    }
}
