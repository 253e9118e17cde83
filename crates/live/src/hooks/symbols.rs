//! Functions of the kernel by address (`/proc/kallsyms`).

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead, BufReader};

/// The functions found so far, by address. The kernel's list is long, and is read once for each set
/// of new addresses.
#[derive(Debug, Default)]
pub(super) struct Functions(RefCell<BTreeMap<u64, Option<String>>>);

impl Functions {
    /// Looks up the addresses that are not known yet. Addresses read as 0 without `CAP_SYSLOG`
    /// (sysctl `kernel.kptr_restrict`): then there are no names.
    pub(super) fn learn(&self, addresses: impl Iterator<Item = u64>) {
        let mut known = self.0.borrow_mut();
        let new: Vec<u64> = addresses.filter(|address| !known.contains_key(address)).collect();
        if new.is_empty() {
            return;
        }
        let names = File::open("/proc/kallsyms")
            .map(|file| nearest(BufReader::with_capacity(1 << 16, file), new.iter().copied()))
            .unwrap_or_default();
        known.extend(new.into_iter().map(|address| (address, names.get(&address).cloned())));
    }

    /// Returns the function that contains an address.
    pub(super) fn name(&self, address: u64) -> Option<String> {
        self.0.borrow().get(&address).cloned().flatten()
    }
}

/// The list is not sorted by address: modules come last.
fn nearest(
    mut list: impl BufRead,
    addresses: impl IntoIterator<Item = u64>,
) -> BTreeMap<u64, String> {
    let mut found: BTreeMap<u64, (u64, String)> =
        addresses.into_iter().map(|address| (address, (0, String::new()))).collect();
    let mut line = String::new();
    while list.read_line(&mut line).is_ok_and(|length| length > 0) {
        let mut words = line.split_ascii_whitespace();
        if let (Some(start), Some("t" | "T" | "w" | "W"), Some(name)) =
            (words.next(), words.next(), words.next())
            && let Ok(start) = u64::from_str_radix(start, 16)
            && start > 0
        {
            for (_, (best, known)) in found.range_mut(start..) {
                if start > *best {
                    *best = start;
                    name.clone_into(known);
                }
            }
        }
        line.clear();
    }
    let named = found.into_iter().filter(|(_, (_, name))| !name.is_empty());
    named.map(|(address, (_, name))| (address, name)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_belongs_to_the_function_that_begins_before_it() {
        let list = "1000 T first\n2000 t second\n1800 d data\n1901 t module\n";
        let names = nearest(list.as_bytes(), [0x0fff, 0x1000, 0x18ff, 0x2010]);
        let names: Vec<_> = names.iter().map(|(at, name)| (*at, name.as_str())).collect();
        assert_eq!(names, [(0x1000, "first"), (0x18ff, "first"), (0x2010, "second")]);
    }

    #[test]
    fn hidden_addresses_have_no_names() {
        assert!(nearest("0000 T first\n".as_bytes(), [0x1000]).is_empty());
    }
}
