//! What the list and the story say about a case: where it lives, and the knob that is turned.

use serde::Serialize;

use crate::labels::Role;
use crate::params::{Params, option};

/// Where in the stack a fault lives, from the user's end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Layer {
    /// Programs: what they do between reading and writing.
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
    /// All, in the order of the list.
    pub const ALL: [Layer; 6] = [
        Layer::Application,
        Layer::Socket,
        Layer::Transport,
        Layer::Network,
        Layer::Link,
        Layer::Names,
    ];

    /// Its name in the list and in JSON.
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

/// What is turned between the faulty run and the healthy one: turning it is the fix. In the texts
/// `{rtt_ns}` stands for the value of that parameter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Knob {
    /// Where it is: a file, a socket, the link.
    pub at: &'static str,
    /// How it stands in the faulty run.
    pub faulty: &'static str,
    /// How it stands in the healthy run.
    pub healthy: &'static str,
    /// What turns it while everything runs; empty where only a restart, or another place, does.
    pub treat: &'static [Treat],
}

/// A treatment by `tcpwhy treat` that does what the fix does, without a restart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Treat {
    /// The end whose network namespace is treated.
    pub at: Role,
    /// What follows `tcpwhy treat`, without the namespace. `{resolv_conf}` stands for the client's
    /// file, `{resolver}` for the address of the resolver that works.
    pub arguments: &'static [&'static str],
}

impl Treat {
    /// At the client.
    pub const fn at_client(arguments: &'static [&'static str]) -> Treat {
        Treat { at: Role::Client, arguments }
    }

    /// At the server.
    pub const fn at_server(arguments: &'static [&'static str]) -> Treat {
        Treat { at: Role::Server, arguments }
    }
}

/// `text` with the values of its parameters.
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
                assert!(!filled.contains('{'), "{}: {filled}", case.name);
            }
        }
    }
}
