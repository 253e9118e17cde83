//! Nothing is sent past the budget: the files of this crate that open sockets are listed here, with
//! the place where each takes what it sends.

use std::fs;
use std::path::{Path, PathBuf};

/// Files that open sockets, with the calls in them that do.
const OPENERS: [(&str, &[&str]); 10] = [
    // A socket that sends nothing, for the size of its buffer.
    ("budget.rs", &["Socket::new"]),
    // Within `Budget::connect`.
    ("addresses.rs", &["Socket::new"]),
    ("dns/ask.rs", &["TcpStream::connect_timeout", "UdpSocket::bind"]),
    ("dns/survey.rs", &["TcpStream::connect_timeout"]),
    ("experiment/connection.rs", &["Socket::new"]),
    ("load/stream.rs", &["TcpStream::connect"]),
    ("path/request.rs", &["TcpStream::connect_timeout"]),
    ("path/rtt.rs", &["TcpStream::connect_timeout"]),
    // Each probe takes a request.
    ("path/connecting.rs", &["Socket::new"]),
    ("path/sender.rs", &["Socket::new", "UdpSocket::bind"]),
];
/// Files whose datagram socket sends nothing: the kernel tells by it the MTU of a route, or the
/// local address.
const SILENT: [&str; 2] = ["path/mtu.rs", "route.rs"];
/// Calls that open sockets.
const CALLS: [&str; 4] =
    ["Socket::new", "TcpStream::connect_timeout", "TcpStream::connect", "UdpSocket::bind"];

fn files(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            files(&path, found);
        } else {
            found.push(path);
        }
    }
}

#[test]
fn every_socket_takes_what_it_sends_from_the_budget() {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut all = Vec::new();
    files(&source, &mut all);
    for path in all {
        let name = path.strip_prefix(&source).expect("inside").display().to_string();
        if name.ends_with("tests.rs") || name.ends_with("fake.rs") {
            continue;
        }
        let text = fs::read_to_string(&path).expect("a file");
        let code = text.split("\n#[cfg(test)]\nmod tests {").next().unwrap_or_default();
        let code: Vec<&str> =
            code.lines().filter(|it| !it.trim_start().starts_with("//")).collect();
        let code = code.join("\n");
        let listed = OPENERS.iter().find(|(file, _)| *file == name).map_or(&[][..], |it| it.1);
        for call in CALLS.iter().filter(|call| code.contains(&format!("{call}("))) {
            let is_silent = *call == "UdpSocket::bind" && SILENT.contains(&&*name);
            let is_listed = is_silent || listed.contains(call);
            assert!(is_listed, "{name} calls {call} without a budget");
        }
        let takes = ["budget.connect(", "budget.request()", "pub fn connect<S: Socket>"];
        assert!(
            listed.is_empty() || takes.iter().any(|it| code.contains(it)),
            "{name} takes nothing from the budget"
        );
    }
}
