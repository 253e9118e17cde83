//! Arguments of `tcpwhy-lab`.

use clap::{Arg, ArgMatches, Args, Command, FromArgMatches, Parser, Subcommand, ValueHint};
use std::path::PathBuf;
use tcpwhy_cli::args::Display;
use tcpwhy_cli::one_of::OneOf;
use tcpwhy_lab::CASES;
use tcpwhy_lab::params::{self, Unit};

const RUN_EXAMPLES: &str = "\
Examples:
  sudo tcpwhy lab run nginx_nodelay_off
  sudo tcpwhy lab run send_buffer --rtt 20ms --rate 100mbit --sndbuf 16KiB --out captures
  sudo tcpwhy lab run loss_random --loss 1% --seed 7 --json | jq .sentence
  sudo tcpwhy lab run slow_reader --keep      leave it up, with commands to try
  sudo tcpwhy lab run nagle_python --treat    cure it while it runs

It needs root, and touches nothing outside the namespaces that it makes.

Exit status: 0 the fault was named and the fix worked, 1 not, 2 the case could not be run.";

/// Reproduces what makes connections slow, with real software, and names it
#[derive(Debug, Parser)]
// Help and errors name it as users call it.
#[command(name = "tcpwhy-lab", bin_name = "tcpwhy lab", version)]
#[command(arg_required_else_help = true, disable_help_subcommand = true)]
pub struct Arguments {
    #[command(subcommand)]
    pub command: LabCommand,
}

#[derive(Debug, Subcommand)]
pub enum LabCommand {
    /// Lists the cases that can be reproduced, by layer, each with its healthy twin
    List {
        /// Describe one case: its parameters, fault and fix
        #[arg(value_name = "CASE", value_parser = CASE, hide_possible_values = true)]
        case: Option<String>,
        /// Print them as JSON, with their parameters
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        display: Display,
    },
    /// Makes a case happen, names its cause, applies the fix, and compares before and after
    #[command(after_help = RUN_EXAMPLES, arg_required_else_help = true)]
    Run(Box<RunArgs>),
    /// Runs all cases with parameters drawn from a seed, and says how often tcpwhy was right
    #[command(after_help = super::verify::NOTES)]
    Verify(Box<super::verify::VerifyArgs>),
    /// Judges diagnoses of labelled captures: tcpwhy's own, or any tool's answers
    #[command(after_help = super::score::NOTES, arg_required_else_help = true)]
    Score(Box<super::score::ScoreArgs>),
    /// Measures the load of a case under several settings, side by side
    #[command(after_help = super::table::NOTES, arg_required_else_help = true)]
    Table(super::table::TableArgs),
    /// Removes what --keep left up, and what killed runs left behind
    Clean,
    /// Prints this help, or the help of a command
    Help {
        /// A command
        #[arg(value_name = "COMMAND")]
        words: Vec<String>,
    },
    /// Writes the man pages of the lab into a folder
    Man {
        /// The folder
        #[arg(value_hint = ValueHint::DirPath)]
        folder: PathBuf,
    },
    /// Prints a completion script of tcpwhy-lab for a shell
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
    /// Holds the stage of a case, for `run --keep`
    #[command(hide = true)]
    Hold(Box<RunArgs>),
}

#[derive(Debug, Args)]
pub struct RunArgs {
    /// The case; `tcpwhy lab list` shows them
    #[arg(value_name = "CASE", value_parser = CASE, hide_possible_values = true)]
    pub case: String,

    /// Keep client, server and link up with the fault, to explore by hand
    #[arg(long)]
    pub keep: bool,

    /// Treat the fault with `tcpwhy treat` while the load runs, instead of running again with the
    /// fix
    #[arg(long, conflicts_with = "keep")]
    pub treat: bool,

    /// Print the result as JSON: labels, reports of both ends, comparison, verdict
    #[arg(long)]
    pub json: bool,

    #[command(flatten)]
    pub display: Display,

    /// Keep the captures and labels.json in DIR/CASE-SEED
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub out: Option<PathBuf>,

    /// Seed for everything random: parameters that are not given, addresses, losses
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,

    #[command(flatten)]
    pub set: Settings,
}

/// Parameters of the case: names, and values with units. Each parameter of any case is an option,
/// so that shells can complete it.
#[derive(Debug, Default)]
pub struct Settings(pub Vec<(String, String)>);

const HEADING: &str = "Parameters (`tcpwhy lab list CASE` shows those of a case)";

/// Parameters that many cases have, with their help.
const COMMON: [(&str, &str); 12] = [
    ("body", "Length of a request's body"),
    ("connections", "Connections at the same time"),
    ("ipv6", "1: IPv6, 0: IPv4"),
    ("loss", "Share of the packets that the link loses"),
    ("rate", "Rate of the link; 0: unlimited"),
    ("rcvbuf", "SO_RCVBUF of the socket that is at fault"),
    ("requests", "Requests on each connection"),
    ("response", "Length of a response's body"),
    ("rtt", "Round trip of the link; 0 with rate 0: a virtual cable"),
    ("sndbuf", "SO_SNDBUF of the socket that is at fault"),
    ("spacing", "Pause between a response and the next request"),
    ("think", "Time that the server takes"),
];

impl Args for Settings {
    /// Built only when they are needed: to find all parameters, every case is drawn.
    fn augment_args(command: Command) -> Command {
        command.defer(|command| {
            let option = |(name, unit): (String, Unit)| {
                let arg =
                    Arg::new(name.clone()).value_name(unit.value_name()).help_heading(HEADING);
                let help = COMMON.iter().find(|(common, _)| *common == name).map(|(_, help)| *help);
                // The long help and `lab list` show parameters that few cases have; the short help
                // does not.
                arg.long(name).help(help).hide_short_help(help.is_none())
            };
            command.args(options().into_iter().map(option))
        })
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for Settings {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let mut settings = Self::default();
        settings.update_from_arg_matches(matches)?;
        Ok(settings)
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        let given = |(name, _): (String, Unit)| {
            let value = matches.get_one::<String>(&name)?.clone();
            Some((name, value))
        };
        self.0 = options().into_iter().filter_map(given).collect();
        Ok(())
    }
}

/// Returns the parameters of all cases as options. The unit is part of the value, not of the name.
fn options() -> Vec<(String, Unit)> {
    let drawn = CASES.iter().map(|case| tcpwhy_lab::case::drawn(case, 1));
    let mut options: Vec<_> = drawn
        .flat_map(|params| params.iter().map(|(name, _)| params::option(name)).collect::<Vec<_>>())
        .collect();
    // If two cases use different units for one name, each reads the value in its own unit.
    options.sort();
    options.dedup_by(|one, other| one.0 == other.0);
    options
}

/// The name of a case.
const CASE: OneOf = OneOf { what: "case", names: || CASES.iter().map(|case| case.name).collect() };

#[cfg(test)]
mod tests {
    use super::Arguments;
    use clap::CommandFactory;

    include!("../../../../tests/command/outputs/paths.rs");
    include!("../../../../tests/command/outputs/arguments.rs");

    /// Tests of outputs go through the table, so that none is forgotten.
    #[test]
    fn every_argument_that_is_a_path_is_known_as_input_or_output() {
        let mut found = Vec::new();
        let mut command = Arguments::command();
        command.build();
        collect(&command, "lab", &mut found);
        let known = PATHS.iter().filter(|it| it.command.starts_with("lab"));
        let mut known: Vec<_> =
            known.map(|it| (it.command.to_owned(), it.argument.to_owned())).collect();
        found.sort();
        known.sort();
        assert_eq!(found, known, "each needs its row in tests/command/outputs/paths.rs");
    }
}
