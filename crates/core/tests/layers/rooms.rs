//! The files and folders of one module import each other in one direction as well: what is above
//! another does not come back to it. A file that is new needs no place in a list; only a cycle fails.

use crate::{module, sources, uses};
use std::collections::{BTreeMap, BTreeSet};

/// Modules whose own files may import each other: parsers of formats that contain each other, and
/// what shares their state.
const FREE: [&str; 5] = ["anonymize", "app", "capture", "check", "wire"];

/// Imports that close a cycle: the module, the file or folder that imports, those that it imports,
/// and why. The list may only become shorter: an entry that closes no cycle any more fails too.
const CLOSING: &[(&str, &str, &[&str], &str)] = &[
    (
        "findings",
        "tally",
        &[
            "announced",
            "attempts",
            "failed_upstream",
            "fallback",
            "left_waiting",
            "legs",
            "listeners",
            "lookups",
            "quic",
            "retries",
            "unheard",
            "worst",
        ],
        "each is one file for what the tally collects of its kind, and for the pass over the tally",
    ),
    ("findings", "tally", &["floors"], "`share_of` stands beside the floors"),
    ("findings", "tally", &["causes"], "the clearest case is proven while the sums are added up"),
    ("findings", "scene", &["causes"], "a scene is proven by the row of its cause"),
    ("findings", "facts", &["causes"], "a row may add facts of its own"),
    ("findings", "attempts", &["causes"], "names of signs that proofs of set-up causes write"),
    ("findings", "overflow", &["causes"], "a flooded listener has no accept queue that is full"),
    ("findings", "causes", &["confidence"], "a flood has no case, and makes its finding itself"),
    ("findings::causes", "lookup", &["rules"], "the row of a look-up's cause has its proof"),
    ("dns", "at_once", &["lookup"], "it compares the queries of a look-up, which holds its result"),
    ("report", "json", &["text"], "JSON has the answer of the text"),
    ("tcp", "exchange", &["pause"], "an exchange holds its pauses, which restore it"),
    ("tcp", "sink", &["connection"], "a sink gets the connection, which calls it"),
    (
        "tcp::connection",
        "cold",
        &["accept", "doubt", "echoes", "faults", "icmp", "relayed"],
        "it holds the state of these files, each of which gets all of it",
    ),
    (
        "tcp::connection",
        "questions",
        &["blocked", "doubt", "queued", "suspended"],
        "it holds the questions of these files, each of which opens and settles its own",
    ),
    ("tcp::connection", "questions", &["silence"], "an answer moves the cursor of its silence"),
    ("tcp::connection", "ending", &["reset"], "it holds the reset that is not yet believed"),
    (
        "tcp::sender",
        "bulk",
        &["pacer", "pieces", "scale", "spacing"],
        "it holds the state of these files, each of which gets all of it",
    ),
    ("tcp::sender", "history", &["path_mtu"], "as `bulk`"),
];

type Path = Vec<String>;

/// The files of the core by the module that they are.
struct Modules {
    code: BTreeMap<Path, String>,
    /// The names that each module passes on or uses, and the path that each stands for.
    names: BTreeMap<Path, BTreeMap<String, String>>,
}

impl Modules {
    fn read() -> Self {
        let owned = |name: &str| module(name).into_iter().map(str::to_owned).collect::<Path>();
        let code: BTreeMap<Path, String> =
            sources().into_iter().map(|(name, code)| (owned(&name), code)).collect();
        let names = code.iter().map(|(path, code)| {
            let names = uses(code).into_iter().filter_map(|it| {
                let (path, alias) = it.split_once(" as ").unwrap_or((&it, ""));
                let last = path.rsplit("::").next()?.trim();
                let name = if alias.is_empty() { last } else { alias.trim() };
                Some((name.to_owned(), path.trim().to_owned()))
            });
            (path.clone(), names.collect())
        });
        let names = names.collect();
        Self { code, names }
    }

    /// The module that a path in the module `of` leads to, through names that others pass on.
    fn target(&self, of: &Path, path: &str, depth: usize) -> Option<Path> {
        let mut words: Vec<&str> = path.split("::").map(str::trim).collect();
        let mut base = of.clone();
        match *words.first()? {
            "crate" => {
                base.clear();
                words.remove(0);
            }
            "super" | "self" => {
                while let Some(word @ ("super" | "self")) = words.first().copied() {
                    if word == "super" {
                        base.pop();
                    }
                    words.remove(0);
                }
            }
            first => {
                if !self.code.contains_key(&child(of, first)) {
                    let named = self.names[of].get(first).filter(|_| words.len() > 1)?;
                    let is_endless = depth == 0 || named.split("::").next() == Some(first);
                    return (!is_endless).then(|| self.target(of, named, depth - 1))?;
                }
            }
        }
        while let Some(next) = words.first().map(|word| child(&base, word)) {
            if !self.code.contains_key(&next) {
                break;
            }
            base = next;
            words.remove(0);
        }
        let passed_on = words.first().filter(|_| base != *of && depth > 0);
        let named = passed_on.and_then(|word| self.names.get(&base)?.get(*word));
        named.and_then(|path| self.target(&base, path, depth - 1)).or(Some(base))
    }

    /// The modules that a module names in `use` statements and in paths.
    fn imports(&self, of: &Path) -> BTreeSet<Path> {
        let code = &self.code[of];
        let is_path = |letter: char| letter.is_alphanumeric() || letter == '_' || letter == ':';
        let inline = code.split(|letter| !is_path(letter)).filter(|word| word.contains("::"));
        let named = uses(code).into_iter().chain(inline.map(str::to_owned));
        named.filter_map(|path| self.target(of, &path, 8)).collect()
    }

    /// For each module the imports between its files and folders.
    fn rooms(&self) -> BTreeMap<String, Arrows> {
        let mut rooms: BTreeMap<String, Arrows> = BTreeMap::new();
        for of in self.code.keys() {
            for to in self.imports(of) {
                let common = of.iter().zip(&to).take_while(|(a, b)| a == b).count();
                if let (true, Some(from), Some(to)) = (common > 0, of.get(common), to.get(common)) {
                    let arrows = rooms.entry(of[..common].join("::")).or_default();
                    arrows.entry(from.clone()).or_default().insert(to.clone());
                }
            }
        }
        rooms
    }
}

fn child(of: &Path, name: &str) -> Path {
    of.iter().cloned().chain([name.to_owned()]).collect()
}

/// Which files and folders of a module import which of its others.
type Arrows = BTreeMap<String, BTreeSet<String>>;

/// Returns a way from one to another, with both ends.
fn way<'a>(arrows: &'a Arrows, from: &'a str, to: &str) -> Option<Vec<&'a str>> {
    let (mut seen, mut ways) = (BTreeSet::new(), vec![vec![from]]);
    while let Some(way) = ways.pop() {
        for next in arrows.get(*way.last()?).into_iter().flatten() {
            let longer: Vec<&str> = way.iter().copied().chain([next.as_str()]).collect();
            if next == to {
                return Some(longer);
            }
            if seen.insert(next) {
                ways.push(longer);
            }
        }
    }
    None
}

#[test]
fn files_of_a_module_import_in_one_direction() {
    let mut wrong = Vec::new();
    for (room, mut arrows) in Modules::read().rooms() {
        if FREE.contains(&&*room) {
            continue;
        }
        for (_, from, closing, _) in CLOSING.iter().filter(|(of, ..)| *of == room) {
            let from = arrows.entry((*from).to_owned()).or_default();
            from.retain(|to| !closing.contains(&&**to));
        }
        let cycles = arrows.keys().filter_map(|it| way(&arrows, it, it));
        wrong.extend(cycles.min_by_key(Vec::len).map(|it| format!("{room}: {}", it.join(" → "))));
    }
    assert!(wrong.is_empty(), "imports in a cycle, of these files:\n{}", wrong.join("\n"));
}

#[test]
fn every_exception_still_closes_a_cycle() {
    let rooms = Modules::read().rooms();
    for (room, from, closing, _) in CLOSING {
        for to in *closing {
            let arrows = &rooms[*room];
            let is_import = arrows.get(*from).is_some_and(|it| it.contains(*to));
            let closes = is_import && way(arrows, to, from).is_some();
            assert!(
                closes,
                "{room}: {from} → {to} closes no cycle any more: delete it from CLOSING"
            );
        }
    }
}

#[test]
fn names_are_followed_to_the_files_that_define_them() {
    let code = |lines: &[(&str, &str)]| {
        let path = |name: &str| name.split("::").map(str::to_owned).collect::<Path>();
        let code: BTreeMap<_, _> =
            lines.iter().map(|(name, code)| (path(name), (*code).to_owned())).collect();
        let names = code.iter().map(|(path, code)| {
            let last = |it: &String| it.rsplit("::").next().unwrap_or_default().to_owned();
            (path.clone(), uses(code).into_iter().map(|it| (last(&it), it)).collect())
        });
        Modules { names: names.collect(), code }.rooms()
    };
    let rooms = code(&[
        ("tcp", "pub use path::Path;\nmod path;\nmod acks;"),
        ("tcp::path", "use super::acks::Acks;"),
        ("tcp::acks", "use crate::tcp::Path;"),
    ]);
    let arrows = &rooms["tcp"];
    assert_eq!(way(arrows, "acks", "acks"), Some(vec!["acks", "path", "acks"]));
}
