//! Words that stand for a target, and words that were probably meant as one.

use std::net::Ipv6Addr;
use std::path::Path;

/// Endings of the names of files, which no name of a host has.
const FILES: [&str; 16] = [
    "bz2", "cap", "csv", "dump", "gz", "html", "json", "log", "lz4", "parquet", "pcap", "pcapng",
    "snoop", "txt", "xz", "zst",
];

/// Returns whether a word names a target to examine: it has a scheme, or it ends in a port and no
/// file has this name.
pub fn is_target(word: &str) -> bool {
    if word.contains("://") {
        return true;
    }
    let port = word.rsplit_once(':').and_then(|(host, port)| {
        let port: Option<u16> = port.parse().ok();
        port.filter(|_| !host.is_empty() && !host.contains('/'))
    });
    port.is_some() && !Path::new(word).exists()
}

/// Returns how to write the target that was probably meant by the name of a file that does not
/// exist.
pub fn target_hint(word: &str) -> Option<String> {
    let (scheme, rest) = word.split_once(':').unwrap_or(("", word));
    if ["http", "https"].iter().any(|it| scheme.eq_ignore_ascii_case(it)) {
        let rest = rest.trim_start_matches('/');
        let rest = if rest.is_empty() { "HOST/" } else { rest };
        return Some(format!("a URL has two slashes: tcpwhy {scheme}://{rest}"));
    }
    let (authority, path) = word.split_at(word.find(['/', '?']).unwrap_or(word.len()));
    if authority.trim_matches(['[', ']']).parse::<Ipv6Addr>().is_ok() {
        let host = format!("[{}]", authority.trim_matches(['[', ']']));
        return Some(examine(&host, path));
    }
    let (host, port) = authority.rsplit_once(':').unwrap_or((authority, ""));
    if !is_host(host) {
        return None;
    }
    match port {
        "" => Some(examine(host, path)),
        port if port.bytes().all(|byte| byte.is_ascii_digit()) => match port.parse::<u16>() {
            Ok(1..) => Some(format!("to examine a server name a URL: tcpwhy http://{word}")),
            _ => Some(format!("`{port}` is no port; ports are 1 to 65535")),
        },
        _ => None,
    }
}

fn examine(host: &str, path: &str) -> String {
    let path = if path.is_empty() { "/" } else { path };
    format!(
        "to examine a server name a URL or a port: tcpwhy http://{host}{path}, tcpwhy \
         https://{host}{path} or tcpwhy {host}:PORT"
    )
}

/// Returns whether a word looks like the name or the address of a host, and not like that of a file.
fn is_host(word: &str) -> bool {
    let is_label = |it: &str| {
        !it.is_empty() && it.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
    };
    if !word.split('.').all(is_label) {
        return false;
    }
    let last = word.rsplit('.').next().unwrap_or_default();
    let is_name = word.contains('.') && last.len() > 1 && !FILES.contains(&last);
    word.eq_ignore_ascii_case("localhost")
        || is_name && !last.bytes().all(|it| it.is_ascii_digit())
        || word.parse::<std::net::Ipv4Addr>().is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_that_mean_a_server_get_the_form_of_a_target() {
        for (word, part) in [
            ("example.org", "tcpwhy http://example.org/,"),
            ("example.org/a?b", "tcpwhy https://example.org/a?b or tcpwhy example.org:PORT"),
            ("localhost", "tcpwhy localhost:PORT"),
            ("127.0.0.1", "tcpwhy 127.0.0.1:PORT"),
            ("127.0.0.1:99999", "`99999` is no port"),
            ("host.example:0", "`0` is no port"),
            ("localhost:80/x", "tcpwhy http://localhost:80/x"),
            ("::1", "tcpwhy [::1]:PORT"),
            ("http:/x", "tcpwhy http://x"),
            ("https:host", "tcpwhy https://host"),
            ("http:", "tcpwhy http://HOST/"),
        ] {
            let hint = target_hint(word).unwrap_or_default();
            assert!(hint.contains(part), "{word}: {hint}");
        }
    }

    #[test]
    fn names_of_files_get_none() {
        for word in
            ["trace.pcap", "dir/trace.pcapng", "trace.2024.pcap.gz", "trace", "../x.org", "a:b"]
        {
            assert_eq!(target_hint(word), None, "{word}");
        }
    }
}
