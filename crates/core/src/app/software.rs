//! The software that a side states (RFC 9110 §10.1.5, §10.2.4). Only names of widespread programs
//! and their versions are read; a stated name may also be that of a host, a tenant or a user.

use super::kind::LABEL_BYTES;
use super::listed::SOFTWARE;

/// Maximum number of parts of a version, and of digits in each: a longer number may be a value.
const VERSION_PARTS_MAX: usize = 4;
const VERSION_DIGITS_MAX: usize = 3;

/// Returns what is shown of a stated software: the names and versions of known programs with which it
/// begins; `None` if it begins with none.
pub fn name_of(software: &[u8]) -> Option<&str> {
    let software = software.trim_ascii();
    let known = software.get(..known_products(software).min(LABEL_BYTES))?;
    std::str::from_utf8(known).ok().filter(|known| !known.is_empty())
}

/// Returns the length of the products with which `stated` begins: listed names, each perhaps with
/// its version, separated by one space. What follows is not shown.
pub(crate) fn known_products(stated: &[u8]) -> usize {
    let mut end = 0;
    while let Some((length, is_whole)) = known_product(&stated[end..]) {
        end += length;
        if !is_whole || stated.get(end) != Some(&b' ') {
            return end;
        }
        end += 1;
    }
    end.saturating_sub(1)
}

/// Returns the length of a listed name with its version at the beginning of `text`, and whether the
/// product ends there.
fn known_product(text: &[u8]) -> Option<(usize, bool)> {
    let name = text.iter().position(|byte| b" /(;,".contains(byte)).unwrap_or(text.len());
    SOFTWARE.has(&text[..name]).then_some(())?;
    let Some(version) = text[name..].strip_prefix(b"/") else {
        return Some((name, text.get(name).is_none_or(|&byte| byte == b' ')));
    };
    let length = version_length(version);
    let is_whole = version.get(length).is_none_or(|&byte| byte == b' ');
    Some(if length == 0 { (name, false) } else { (name + 1 + length, is_whole) })
}

/// Returns the length of the version number at the beginning of `text`.
fn version_length(text: &[u8]) -> usize {
    let mut end = 0;
    for part in 0..VERSION_PARTS_MAX {
        let begin = end + usize::from(part > 0);
        if part > 0 && text.get(end) != Some(&b'.') {
            break;
        }
        let rest = text.get(begin..).unwrap_or_default();
        let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
        if digits == 0 || digits > VERSION_DIGITS_MAX {
            break;
        }
        end = begin + digits;
    }
    end
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_programs_and_their_versions_are_read() {
        for (stated, shown) in [
            ("nginx/1.24.0", "nginx/1.24.0"),
            ("nginx", "nginx"),
            ("SimpleHTTP/0.6 Python/3.11.2", "SimpleHTTP/0.6 Python/3.11.2"),
            ("Apache/2.4.57 (Debian) on alice-laptop", "Apache/2.4.57"),
            ("nginx/1.24.0 alice", "nginx/1.24.0"),
            ("Java/17.0.1+12", "Java/17.0.1"),
            ("Jetty(9.4.44.v20210927)", "Jetty"),
            ("curl/7.88.1-alice", "curl/7.88.1"),
            ("nginx/4155551234", "nginx"),
            ("nginx/1.24.20210927.5", "nginx/1.24"),
            ("nginx/alice", "nginx"),
            ("nginx-alice/1.0", ""),
            ("alice-laptop", ""),
            ("", ""),
        ] {
            assert_eq!(&stated[..known_products(stated.as_bytes())], shown, "{stated}");
        }
    }
}
