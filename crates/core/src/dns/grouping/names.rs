//! Names of one search (resolv.conf(5) `search`): a resolver library asks for the name that it was
//! given with one suffix after the other, and as it is. Only the suffix changes.

/// Returns whether one name is the other with a suffix.
pub(super) fn is_extended(one: &str, other: &str) -> bool {
    let (short, long) = if one.len() < other.len() { (one, other) } else { (other, one) };
    let suffix = long.strip_prefix(short).and_then(|rest| rest.strip_prefix('.'));
    suffix.is_some_and(|suffix| is_given(short) && is_domain(suffix))
}

/// Returns whether a resolver with a search list may query `next` after `last`: the same leading
/// labels with another suffix, or with none.
pub(super) fn is_next_name(last: &str, next: &str) -> bool {
    if is_extended(last, next) {
        return true;
    }
    // Hosts of different domains are called `www`, so names that share only that label are
    // unrelated.
    let least = if last.starts_with("www.") { 2 } else { 1 };
    let alike = last.split('.').zip(next.split('.')).take_while(|(one, other)| one == other);
    let head: Vec<_> = alike.map(|(label, _)| label).collect();
    if last == "www" || last.starts_with('.') || head.len() < least || !is_given(&head.join(".")) {
        return false;
    }
    let suffix = |name| str::split(name, '.').skip(head.len()).collect::<Vec<_>>();
    let (last, next) = (suffix(last), suffix(next));
    let alike = last.iter().rev().zip(next.iter().rev()).take_while(|(one, other)| one == other);
    // A list has a domain and those above it, or separate ones. Places in one domain are separate
    // names.
    let shared = alike.count();
    let is_above = shared == last.len().min(next.len());
    [&last, &next].iter().all(|it| it.iter().all(|label| is_plain(label)))
        && (is_above || shared < DOMAIN_LABELS)
}

/// Number of labels of the shortest domain that has an owner, such as `example.com`.
const DOMAIN_LABELS: usize = 2;

/// Returns whether a user gives such a name to be completed: it names a host, and not only a
/// service, whose name has no meaning without its domain (RFC 8552 §1.1).
fn is_given(name: &str) -> bool {
    name.split('.').any(is_plain)
}

/// Returns whether the name may be a domain of a search list, where hosts are (RFC 1123 §2.1).
fn is_domain(name: &str) -> bool {
    name.split('.').all(is_plain)
}

/// Returns whether a label is no underscored one (RFC 8552), which is the name of a service or an
/// attribute.
fn is_plain(label: &str) -> bool {
    !label.starts_with('_')
}

#[cfg(test)]
mod tests {
    use super::is_next_name;

    #[test]
    fn names_of_one_search_differ_by_their_suffix() {
        for (last, next) in [
            ("api.shop.svc.cluster.local", "api.svc.cluster.local"),
            ("api.svc.cluster.local", "api.cluster.local"),
            ("api.cluster.local", "api.corp.local"),
            ("api.corp.local", "api"),
            ("api.example.com.corp.local", "api.example.com"),
            ("api.one.com", "api.two.org"),
            ("_sip._tcp.api.shop.svc.cluster.local", "_sip._tcp.api.svc.cluster.local"),
        ] {
            assert!(is_next_name(last, next), "{last} {next}");
        }
    }

    #[test]
    fn names_that_differ_in_the_middle_are_no_search() {
        for (last, next) in [
            ("_ldap._tcp.paris._sites.dc.corp.example", "_ldap._tcp.dc.corp.example"),
            ("_ldap._tcp.dc.corp.example", "_ldap._tcp.f00.domains.corp.example"),
            ("_ldap._tcp.corp.example", "_ldap._tcp.example"),
            ("selector._domainkey.mail.example", "selector.mail.example"),
            ("db.paris.corp.example", "db.rome.corp.example"),
            ("www.one.example", "www.two.example"),
        ] {
            assert!(!is_next_name(last, next), "{last} {next}");
        }
    }
}
