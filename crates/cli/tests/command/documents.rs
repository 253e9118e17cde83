//! The documents: links lead somewhere, and the book has every chapter.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().expect("the repository")
}

/// Returns the Markdown files below `folder`.
fn below(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("it").path());
    let (folders, files): (Vec<_>, Vec<_>) = entries.partition(|path| path.is_dir());
    let mut found: Vec<_> = folders.iter().flat_map(|folder| below(folder)).collect();
    found.extend(files.into_iter().filter(|path| path.extension().is_some_and(|it| it == "md")));
    found
}

/// Returns the text outside of fenced examples.
fn prose(text: &str) -> String {
    let parts = text.split("```").step_by(2);
    parts.collect()
}

/// Returns the targets of links, and of pictures.
fn links(text: &str) -> Vec<String> {
    let after = text.split("](").skip(1);
    after.filter_map(|rest| rest.split_once(')')).map(|(target, _)| target.to_owned()).collect()
}

/// Returns the anchors of headings, as GitHub and mdBook make them.
fn anchors(text: &str) -> BTreeSet<String> {
    let headings = text.lines().filter(|line| line.starts_with('#'));
    let anchor = |heading: &str| {
        let words = heading.trim_start_matches('#').trim().to_lowercase();
        let kept = words.chars().filter(|it| it.is_alphanumeric() || " -_".contains(*it));
        kept.map(|it| if it == ' ' { '-' } else { it }).collect()
    };
    headings.map(anchor).collect()
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

#[test]
fn links_in_documents_lead_somewhere() {
    let root = root();
    let of_root = ["README", "ARCHITECTURE", "CONTRIBUTING", "SECURITY", "CHANGELOG"];
    let mut documents: Vec<_> = of_root.map(|name| root.join(format!("{name}.md"))).into();
    documents.extend(below(&root.join("docs")));
    let mut wrong = Vec::new();
    for document in &documents {
        for link in links(&prose(&read(document))) {
            if link.starts_with("http") {
                continue;
            }
            let (path, anchor) = link.split_once('#').unwrap_or((&link, ""));
            let folder = document.parent().expect("a folder");
            let target = if path.is_empty() { document.clone() } else { folder.join(path) };
            let leads = target.exists()
                && (anchor.is_empty() || anchors(&prose(&read(&target))).contains(anchor));
            if !leads {
                wrong.push(format!("{}: {link}", document.display()));
            }
        }
    }
    assert_eq!(wrong, Vec::<String>::new());
}

#[test]
fn the_book_has_every_chapter() {
    let docs = root().join("docs");
    let summary = docs.join("SUMMARY.md");
    let listed: BTreeSet<_> = links(&read(&summary)).into_iter().collect();
    let chapters = below(&docs).into_iter().filter(|path| *path != summary);
    for chapter in chapters {
        let name = chapter.strip_prefix(&docs).expect("below docs").display().to_string();
        assert!(listed.contains(&name), "docs/SUMMARY.md does not list {name}");
    }
}
