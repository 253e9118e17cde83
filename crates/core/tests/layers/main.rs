//! The modules of `crates/core/src` import each other in one direction only. ARCHITECTURE's picture
//! shows this order. So do the files within a module (`rooms`).

mod rooms;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// Each module may import those before it.
const ORDER: [&str; 29] = [
    "queue",
    "literal",
    "keys",
    "capture",
    "wire",
    "app",
    "model",
    "filter",
    "judge",
    "tcp",
    "dns",
    "quic",
    "findings",
    "experiment",
    "state",
    "compare",
    "report",
    "check",
    "join",
    "pipeline",
    "survey",
    "second_pass",
    "graph",
    "drill",
    "picture",
    "page",
    "tables",
    "stages",
    "anonymize",
];

fn source() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("src")
}

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

/// The code of a file without comments and without its own tests.
fn code(path: &Path) -> String {
    let text = fs::read_to_string(path).expect("a file");
    let mut begins = ["", "pub(super) ", "pub(crate) "].into_iter();
    let own = begins.find_map(|public| {
        text.split_once(&format!("\n#[cfg(test)]\n{public}mod tests {{")).map(|(code, _)| code)
    });
    let text = own.unwrap_or(&text);
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
    found.retain(|path| path.extension().is_some_and(|it| it == "rs"));
    let name = |path: &PathBuf| {
        path.strip_prefix(source()).expect("below").to_str().expect("a name").replace('\\', "/")
    };
    let is_test = |name: &str| name.ends_with("/tests.rs") || name.contains("/tests/");
    found.iter().map(|path| (name(path), code(path))).filter(|(name, _)| !is_test(name)).collect()
}

/// The module that a file is, from the root: `["tcp", "sender", "losses"]`.
fn module(name: &str) -> Vec<&str> {
    let mut path: Vec<&str> = name.trim_end_matches(".rs").split('/').collect();
    if matches!(path.last(), Some(&"mod" | &"lib")) {
        path.pop();
    }
    path
}

/// The paths of a `use` with its groups taken apart: `a::{b, c::d}` is `a::b` and `a::c::d`.
fn expanded(path: &str) -> Vec<String> {
    let path = path.trim();
    let Some((start, group)) = path.split_once('{') else { return vec![path.to_owned()] };
    let group = group.trim_end().strip_suffix('}').unwrap_or(group);
    let (mut parts, mut part, mut depth) = (Vec::new(), String::new(), 0);
    for letter in group.chars() {
        match letter {
            '{' => depth += 1,
            '}' => depth -= 1,
            _ => {}
        }
        if letter == ',' && depth == 0 {
            parts.push(std::mem::take(&mut part));
        } else {
            part.push(letter);
        }
    }
    parts.push(part);
    let parts = parts.iter().filter(|part| !part.trim().is_empty());
    parts.flat_map(|part| expanded(part)).map(|part| format!("{start}{part}")).collect()
}

/// The module at the top that a path in the file `name` leads to, if it leads to this crate.
fn target(name: &str, path: &str) -> Option<String> {
    let mut base = module(name);
    let mut words = path.split("::").map(str::trim).peekable();
    match *words.peek()? {
        "crate" => {
            words.next();
            return words.next().map(str::to_owned);
        }
        "super" | "self" => {}
        _ => return None,
    }
    while let Some(word @ ("super" | "self")) = words.peek().copied() {
        if word == "super" {
            base.pop();
        }
        words.next();
    }
    base.first().copied().or_else(|| words.next()).map(str::to_owned)
}

/// The paths of the `use` statements of `code`.
fn uses(code: &str) -> Vec<String> {
    let starts = ["use ", "pub use ", "pub(crate) use ", "pub(super) use "];
    let statements = code.split(['\n', ';']).map(str::trim_start).filter(|line| {
        starts.iter().any(|start| line.starts_with(start)) || line.starts_with("pub(in ")
    });
    let mut found = Vec::new();
    let mut rest = code;
    for statement in statements {
        // A group goes on over lines: up to the semicolon.
        let Some(at) = rest.find(statement) else { continue };
        rest = &rest[at..];
        let whole = rest.split(';').next().unwrap_or_default();
        if let Some((_, path)) = whole.split_once("use ") {
            found.extend(expanded(&path.replace('\n', " ")));
        }
    }
    found
}

/// The modules at the top that the file `name` with `code` names in `use` statements and in paths.
fn imports(name: &str, code: &str) -> BTreeSet<String> {
    let is_path = |letter: char| letter.is_alphanumeric() || letter == '_' || letter == ':';
    let inline = code.split(|letter| !is_path(letter)).filter(|word| word.contains("::"));
    let paths = uses(code).into_iter().chain(inline.map(str::to_owned));
    let named = paths.filter_map(|path| target(name, &path));
    named.filter(|module| ORDER.contains(&module.as_str())).collect()
}

#[test]
fn modules_import_in_one_direction() {
    let place = |module: &str| ORDER.iter().position(|it| *it == module);
    let mut back = Vec::new();
    for (name, code) in sources() {
        let path = module(&name);
        let Some(own) = path.first() else { continue };
        let own_place = place(own).unwrap_or_else(|| panic!("{own} has no place in the order"));
        for module in imports(&name, &code) {
            if place(&module) > Some(own_place) {
                back.push(format!("{name} imports {module}"));
            }
        }
    }
    assert!(back.is_empty(), "against the order of the layers:\n{}", back.join("\n"));
}

#[test]
fn names_are_imported_one_by_one_from_other_files() {
    let is_glob = |path: &String| path.ends_with("::*");
    // A module may pass on all of a child of its own.
    let of_others = |path: &String| path.starts_with("crate::") || path.starts_with("super::");
    let mut globs = Vec::new();
    for (name, code) in sources() {
        let found = uses(&code).into_iter().filter(is_glob).filter(of_others);
        globs.extend(found.map(|path| format!("{name}: use {path}")));
    }
    assert!(globs.is_empty(), "globs outside of tests:\n{}", globs.join("\n"));
}

/// The words of a document in code quotes that are paths of files, without placeholders.
fn named_files(document: &str) -> BTreeSet<&str> {
    let is_file = |word: &&str| {
        let ends = [".rs", ".md", ".sh"].iter().any(|end| word.ends_with(end));
        let is_plain =
            |letter: char| letter.is_ascii_lowercase() || "/_.0123456789".contains(letter);
        ends && word.chars().all(is_plain)
    };
    document.split('`').filter(is_file).collect()
}

#[test]
fn files_that_the_architecture_names_exist() {
    let root = source().ancestors().nth(3).expect("the repository").to_owned();
    let read = |name: &str| fs::read_to_string(root.join(name)).expect("a document");
    let listed = |folder: &str, found: &mut Vec<PathBuf>| files(&root.join(folder), found);
    let mut found = Vec::new();
    ["crates", "testdata", "fuzz", "bench", "docs"].iter().for_each(|it| listed(it, &mut found));
    let text = read("ARCHITECTURE.md");
    let exists = |name: &&str| found.iter().any(|path| path.ends_with(name));
    let missing: Vec<&str> = named_files(&text).into_iter().filter(|name| !exists(name)).collect();
    assert!(missing.is_empty(), "ARCHITECTURE.md names files that do not exist: {missing:?}");
}

#[test]
fn every_form_of_an_import_is_found() {
    let found = |code: &str| {
        let all: Vec<String> = imports("wire/tcp.rs", code).into_iter().collect();
        all.join(" ")
    };
    assert_eq!(
        found("use crate::report::Report;\nuse crate::{findings, tcp::Tracker};"),
        "findings report tcp"
    );
    assert_eq!(
        found("use crate::{\n    wire::tcp,\n    model::{Cause, report},\n};"),
        "model wire"
    );
    assert_eq!(
        found("fn f() { crate::judge::judge(gap); super::super::dns::link(); }"),
        "dns judge"
    );
    assert_eq!(found("use super::super::report::x;\nuse super::segment;"), "report wire");
    let globs = uses("pub(super) use super::*;\n    use crate::judge::*;\npub use report::*;");
    assert_eq!(globs, ["super::*", "crate::judge::*", "report::*"]);
}
