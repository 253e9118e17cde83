//! The modules of `crates/core/src` import each other in one direction only. ARCHITECTURE's picture
//! shows this order.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// Each module may import those before it.
const ORDER: [&str; 24] = [
    "queue",
    "capture",
    "wire",
    "app",
    "model",
    "filter",
    "judge",
    "tcp",
    "dns",
    "findings",
    "experiment",
    "state",
    "compare",
    "report",
    "join",
    "pipeline",
    "survey",
    "second_pass",
    "graph",
    "drill",
    "picture",
    "tables",
    "anonymize",
    "lib",
];

fn source() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("src")
}

fn files(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            files(&path, found);
        } else if path.extension().is_some_and(|it| it == "rs") {
            found.push(path);
        }
    }
}

/// The code of a file without comments and without its own tests.
fn code(path: &Path) -> String {
    let text = fs::read_to_string(path).expect("a file");
    let text = text.split("\n#[cfg(test)]\nmod tests {").next().unwrap_or_default();
    text.lines().map(|line| line.split("//").next().unwrap_or_default()).fold(
        String::new(),
        |mut code, line| {
            code.push_str(line);
            code.push('\n');
            code
        },
    )
}

/// The sources, by path below `src`, without the files that hold tests.
fn sources() -> BTreeMap<String, String> {
    let mut found = Vec::new();
    files(&source(), &mut found);
    let name = |path: &PathBuf| {
        path.strip_prefix(source()).expect("below").to_str().expect("a name").replace('\\', "/")
    };
    let is_test = |name: &str| name.ends_with("/tests.rs") || name.contains("/tests/");
    found.iter().map(|path| (name(path), code(path))).filter(|(name, _)| !is_test(name)).collect()
}

/// The module at the top that a file belongs to.
fn top(name: &str) -> &str {
    let first = name.split('/').next().unwrap_or_default();
    first.strip_suffix(".rs").unwrap_or(first)
}

/// The modules at the top that `code` names, as `crate::module` or in `use crate::{module, …}`.
fn imports(code: &str) -> BTreeSet<String> {
    let mut named = BTreeSet::new();
    for part in code.split("crate::").skip(1) {
        if let Some(list) = part.strip_prefix('{') {
            let mut depth = 0;
            let mut word = String::new();
            for letter in list.chars() {
                match letter {
                    '{' => depth += 1,
                    '}' if depth == 0 => break,
                    '}' => depth -= 1,
                    ',' if depth == 0 => word.clear(),
                    _ if depth > 0 => {}
                    _ if letter.is_alphanumeric() || letter == '_' => word.push(letter),
                    ':' if !word.is_empty() => {
                        named.insert(std::mem::take(&mut word));
                    }
                    _ => {}
                }
                if !word.is_empty() && depth == 0 {
                    named.insert(word.clone());
                }
            }
        } else {
            let end = part.find(|it: char| !it.is_alphanumeric() && it != '_');
            named.insert(part[..end.unwrap_or(part.len())].to_owned());
        }
    }
    named.retain(|name| ORDER.contains(&name.as_str()));
    named
}

#[test]
fn modules_import_in_one_direction() {
    let place = |module: &str| ORDER.iter().position(|it| *it == module);
    let mut back = Vec::new();
    for (name, code) in sources() {
        let own = top(&name);
        let own_place = place(own).unwrap_or_else(|| panic!("{own} has no place in the order"));
        for module in imports(&code) {
            if place(&module) > Some(own_place) && own != "lib" {
                back.push(format!("{name} imports {module}"));
            }
        }
    }
    assert!(back.is_empty(), "against the order of the layers:\n{}", back.join("\n"));
}

#[test]
fn names_are_imported_one_by_one_from_other_files() {
    let globs: Vec<String> = sources()
        .into_iter()
        .filter(|(_, code)| code.lines().any(|line| line == "use super::*;"))
        .map(|(name, _)| name)
        .collect();
    assert!(globs.is_empty(), "`use super::*` outside of tests: {}", globs.join(", "));
}

#[test]
fn an_arrow_back_is_found() {
    let code = "use crate::report::Report;\nuse crate::{findings, tcp::Tracker};\n";
    let found = imports(code);
    let expected = ["findings", "report", "tcp"].map(str::to_owned);
    assert_eq!(found, BTreeSet::from(expected));
}
