//! Proxies that the environment names. Programs that honour these variables, such as curl, ask the
//! proxy; a measurement of the server itself does not.

use std::env;
use tcpwhy_probe::{Scheme, Target};

/// Says which proxy programs ask in place of the server; `None` if the environment names none for
/// this target.
pub fn note(target: &Target) -> Option<String> {
    note_of(target, |name| env::var(name).ok().filter(|it| !it.is_empty()))
}

fn note_of(target: &Target, value: impl Fn(&str) -> Option<String>) -> Option<String> {
    // `HTTP_PROXY` is not honoured: a CGI server sets it from a header of its client.
    let names: &[&'static str] = match target.scheme {
        Scheme::Http => &["http_proxy", "all_proxy", "ALL_PROXY"],
        Scheme::Https => &["https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"],
        Scheme::Tcp => &[],
    };
    let (name, proxy) = names.iter().find_map(|name| Some((*name, value(name)?)))?;
    let exceptions = ["no_proxy", "NO_PROXY"].iter().find_map(|name| value(name));
    if exceptions.is_some_and(|it| excepts(&it, &target.host)) {
        return None;
    }
    // A proxy may be named with a password.
    let place = proxy.rsplit_once('@').map_or(proxy.as_str(), |(_, place)| place);
    let place = place.split_once("://").map_or(place, |(_, place)| place).trim_end_matches('/');
    Some(format!(
        "{name} names {place}: programs that honour it ask this proxy, and their requests may be as \
         slow as the proxy is; tcpwhy asks {} itself",
        target.host
    ))
}

/// Returns whether a list of hosts and domains contains the host.
fn excepts(list: &str, host: &str) -> bool {
    list.split(',').map(|it| it.trim().trim_start_matches('.')).any(|it| {
        let is_within = host
            .len()
            .checked_sub(it.len())
            .is_some_and(|at| host.is_char_boundary(at) && host[at..].eq_ignore_ascii_case(it));
        let begin = host.len().saturating_sub(it.len());
        it == "*"
            || !it.is_empty() && is_within && (begin == 0 || host.as_bytes()[begin - 1] == b'.')
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn note(url: &str, set: &[(&str, &str)]) -> Option<String> {
        let value = |name: &str| {
            set.iter().find(|(it, _)| *it == name).map(|(_, value)| (*value).to_owned())
        };
        note_of(&Target::parse(url).expect("a target"), value)
    }

    #[test]
    fn the_proxy_of_the_scheme_is_named_without_its_password() {
        let set = [("http_proxy", "http://me:secret@proxy:3128/"), ("HTTPS_PROXY", "other:1")];
        let said = note("http://host/", &set).expect("a note");
        assert!(said.starts_with("http_proxy names proxy:3128: "), "{said}");
        let said = note("https://host/", &set).expect("a note");
        assert!(said.starts_with("HTTPS_PROXY names other:1: "), "{said}");
        assert_eq!(note("host:80", &set), None);
        assert_eq!(note("http://host/", &[("HTTP_PROXY", "proxy:1")]), None);
    }

    #[test]
    fn excepted_hosts_are_asked_without_a_proxy() {
        for (list, is_excepted) in [
            ("localhost,.example.org", true),
            ("EXAMPLE.org", true),
            ("*", true),
            ("ample.org", false),
            ("www.a.example.org", false),
            ("", false),
        ] {
            let set = [("http_proxy", "proxy:1"), ("no_proxy", list)];
            assert_eq!(note("http://a.example.org/", &set).is_none(), is_excepted, "{list}");
        }
    }
}
