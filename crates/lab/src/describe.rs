//! The description of a case for the list and the story: its layer, and the setting that is
//! changed.

use serde::Serialize;

use crate::labels::Role;
use crate::params::{Params, option};

/// The layer in which a fault is, from the user's end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Layer {
    /// Programs: what they do between reads and writes.
    Application,
    /// Socket options, buffers and queues, which programs and kernels set.
    Socket,
    /// TCP itself.
    Transport,
    /// Routers, filters, NAT, distance.
    Network,
    /// Rate, queue and loss of a link.
    Link,
    /// DNS.
    Names,
}

impl Layer {
    /// All layers, in the order of the list.
    pub const ALL: [Layer; 6] = [
        Layer::Application,
        Layer::Socket,
        Layer::Transport,
        Layer::Network,
        Layer::Link,
        Layer::Names,
    ];

    /// Name in the list and in JSON.
    pub fn id(self) -> &'static str {
        match self {
            Layer::Application => "application",
            Layer::Socket => "socket",
            Layer::Transport => "transport",
            Layer::Network => "network",
            Layer::Link => "link",
            Layer::Names => "names",
        }
    }
}

/// The setting that differs between the faulty and the healthy run; changing it is the fix. In the
/// texts `{rtt_ns}` stands for the value of that parameter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Knob {
    /// Place of the setting: a file, a socket, the link.
    pub at: &'static str,
    /// Value in the faulty run.
    pub faulty: &'static str,
    /// Value in the healthy run.
    pub healthy: &'static str,
    /// Treatments that change it during the run; empty if the fix needs a restart or another
    /// system.
    pub treat: &'static [Treat],
}

/// A treatment by `tcpwhy treat` with the effect of the fix, without a restart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Treat {
    /// The end whose network namespace is treated.
    pub at: Role,
    /// Arguments of `tcpwhy treat`, without the namespace. `{resolv_conf}` stands for the client's
    /// file, `{resolver}` for the address of the resolver that works.
    pub arguments: &'static [&'static str],
}

impl Treat {
    /// Returns a treatment of the client.
    pub const fn at_client(arguments: &'static [&'static str]) -> Treat {
        Treat { at: Role::Client, arguments }
    }

    /// Returns a treatment of the server.
    pub const fn at_server(arguments: &'static [&'static str]) -> Treat {
        Treat { at: Role::Server, arguments }
    }
}

/// Returns `text` with the values of its parameters.
pub fn fill(text: &str, params: &Params) -> String {
    let mut filled = text.to_owned();
    for (name, value) in params.iter() {
        filled = filled.replace(&format!("{{{name}}}"), &option(name).1.show(value));
    }
    filled
}

#[cfg(test)]
mod tests {
    use super::fill;
    use crate::case::drawn;
    use crate::cases::CASES;
    use crate::labels::Class;

    #[test]
    fn a_case_with_something_to_find_says_what_it_turns() {
        for case in CASES {
            assert_eq!(case.knob.is_none(), case.class == Class::None, "{}", case.name);
        }
    }

    #[test]
    fn a_knob_names_parameters_that_its_case_has() {
        for case in CASES {
            let Some(knob) = case.knob else { continue };
            for text in [knob.faulty, knob.healthy] {
                let filled = fill(text, &drawn(case, 1));
                // A block of a configuration has a space behind its brace.
                let mut braces = filled.split('{').skip(1);
                let is_place = |rest: &str| rest.starts_with(|it: char| it.is_ascii_lowercase());
                assert!(!braces.any(is_place), "{}: {filled}", case.name);
            }
        }
    }
}
