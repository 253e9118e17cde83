//! An argument with a fixed set of names: parser, suggestion for a mistyped name, and list in
//! columns.

use clap::builder::{PossibleValue, TypedValueParser};
use clap::error::{Error, ErrorKind};
use clap::{Arg, Command};
use std::ffi::OsStr;
use std::fmt::Write;
use tcpwhy_core::filter::nearest;
use tcpwhy_core::model::Cause;

/// Width of an error message, columns.
const WIDTH: usize = 80;

/// A fixed set of names for an argument.
#[derive(Clone, Copy)]
pub struct OneOf {
    /// The kind of thing that is named, for messages.
    pub what: &'static str,
    /// Returns all names.
    pub names: fn() -> Vec<&'static str>,
}

impl OneOf {
    /// The names of causes, and `list` for all.
    pub const CAUSES: Self = Self {
        what: "cause",
        names: || Cause::ALL.iter().map(|cause| cause.id()).chain(["list"]).collect(),
    };

    /// Returns the error message for a name that is not in the set.
    fn unknown(&self, name: &str) -> String {
        let names = (self.names)();
        let mut text = format!("no {} is called `{name}`", self.what);
        if let Some(meant) = nearest(name, names.iter().copied()) {
            let _ = write!(text, "; did you mean `{meant}`?");
        }
        let _ = write!(text, "\n\nThe {}s are:\n{}", self.what, columns(&names));
        text
    }
}

/// Sets names in columns, ordered from top to bottom.
fn columns(names: &[&str]) -> String {
    let mut names = names.to_vec();
    names.sort_unstable();
    let column = names.iter().map(|name| name.len()).max().unwrap_or(0) + 2;
    let columns = ((WIDTH - 2) / column).max(1);
    let rows = names.len().div_ceil(columns);
    let mut text = String::new();
    for row in 0..rows {
        let line = names.iter().skip(row).step_by(rows.max(1));
        let line: String = line.map(|name| format!("{name:<column$}")).collect();
        let _ = writeln!(text, "  {}", line.trim_end());
    }
    text
}

impl TypedValueParser for OneOf {
    type Value = String;

    fn parse_ref(
        &self,
        command: &Command,
        _: Option<&Arg>,
        value: &OsStr,
    ) -> Result<String, Error> {
        let name = value.to_string_lossy();
        if (self.names)().contains(&&*name) {
            return Ok(name.into_owned());
        }
        Err(Error::raw(ErrorKind::InvalidValue, self.unknown(&name)).with_cmd(command))
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        Some(Box::new((self.names)().into_iter().map(PossibleValue::new)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_stand_in_columns_from_top_to_bottom() {
        let names = ["e", "d", "c", "b", "a_name_that_takes_more_than_a_third_of_it"];
        let text = columns(&names);
        assert_eq!(text.lines().count(), 5, "{text}");
        let text = columns(&["cc", "aa", "bb"]);
        assert_eq!(text, "  aa  bb  cc\n");
    }
}
