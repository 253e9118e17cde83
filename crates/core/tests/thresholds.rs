//! `docs/thresholds.md` lists every constant of the files `thresholds.rs` with its value, its source
//! and what it decides, as these files state them, and traces or tests that exist.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

/// The layers that have a file `thresholds.rs`, in the order of the sections of the table.
const LAYERS: [&str; 10] =
    ["app", "judge", "tcp", "dns", "quic", "findings", "experiment", "state", "compare", "join"];

/// A constant as its file states it.
struct Threshold {
    layer: &'static str,
    name: String,
    value: String,
    /// Its doc comment, joined to one line.
    doc: String,
}

impl Threshold {
    /// Its row in the table, without the traces and tests that pin it.
    fn row(&self, values: &BTreeMap<String, f64>) -> String {
        let (decides, source) = self.doc.rsplit_once(" Source: ").unwrap_or_default();
        let source = source.trim_end_matches('.').replace('|', "\\|");
        let value = with_unit(&self.name, values[&self.name]);
        format!("| `{}` | {value} | {source} | {} |", self.name, decides.replace('|', "\\|"))
    }
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn source() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/src"))
}

/// Returns the constants of all layers in the order of the sections and files.
fn thresholds() -> Vec<Threshold> {
    LAYERS.iter().flat_map(|layer| of_layer(layer)).collect()
}

fn of_layer(layer: &'static str) -> Vec<Threshold> {
    let text = read(&source().join(layer).join("thresholds.rs"));
    let (mut found, mut doc, mut code) = (Vec::new(), Vec::new(), String::new());
    for line in text.lines() {
        if let Some(line) = line.strip_prefix("/// ") {
            doc.push(line);
        } else if !code.is_empty() || line.starts_with("pub const ") {
            code += line;
        } else {
            doc.clear();
        }
        if code.ends_with(';') {
            let stated = std::mem::take(&mut code);
            let (name, value) = stated.trim_end_matches(';').split_once('=').expect("a value");
            let name = name.trim_start_matches("pub const ").split(':').next().expect("a name");
            let (name, value) = (name.to_owned(), value.trim().to_owned());
            found.push(Threshold { layer, name, value, doc: std::mem::take(&mut doc).join(" ") });
        }
    }
    found
}

/// Returns the value of a constant expression. Operators of one rank are taken from the left.
fn value(expression: &str, known: &BTreeMap<String, f64>) -> f64 {
    for rank in [&[" << "][..], &[" + ", " - "], &[" * ", " / "]] {
        let last = rank.iter().filter_map(|&sign| Some((expression.rfind(sign)?, sign))).max();
        let Some((at, sign)) = last else { continue };
        let left = value(&expression[..at], known);
        let right = value(&expression[at + sign.len()..], known);
        return match sign {
            " << " => left * right.exp2(),
            " + " => left + right,
            " - " => left - right,
            " * " => left * right,
            _ => left / right,
        };
    }
    let operand = expression.split(" as ").next().expect("an operand");
    let number = operand.replace('_', "").parse().ok();
    number.or_else(|| known.get(operand).copied()).unwrap_or_else(|| panic!("{expression}?"))
}

fn values(thresholds: &[Threshold]) -> BTreeMap<String, f64> {
    thresholds.iter().fold(BTreeMap::new(), |mut known, it| {
        let value = value(&it.value, &known);
        assert!(known.insert(it.name.clone(), value).is_none(), "{} is there twice", it.name);
        known
    })
}

/// Returns a value with the unit that ends the name of its constant.
fn with_unit(name: &str, value: f64) -> String {
    let unit = name.rsplit('_').next().unwrap_or_default();
    match unit {
        "NS" if value >= 1e9 => format!("{} s", value / 1e9),
        "NS" if value >= 1e6 => format!("{} ms", value / 1e6),
        "NS" => format!("{} µs", value / 1e3),
        "S" => format!("{value} s"),
        "BYTES" | "SEGMENTS" | "ROUNDS" | "TICKS" => {
            format!("{} {}", grouped(value), unit.to_lowercase())
        }
        _ => grouped(value),
    }
}

/// Returns a number with commas between thousands.
fn grouped(value: f64) -> String {
    let digits = value.to_string();
    if value.fract() != 0.0 {
        return digits;
    }
    let groups = digits.as_bytes().rchunks(3).rev();
    groups.map(|group| str::from_utf8(group).expect("digits")).collect::<Vec<_>>().join(",")
}

/// A row of the table without its last column, and that column.
type Row = (String, String);

/// The rows of the table by the section that they are in.
fn rows() -> BTreeMap<String, Vec<Row>> {
    let path = source().join("../../../docs/thresholds.md");
    let (mut rows, mut section) = (BTreeMap::<_, Vec<_>>::new(), String::new());
    for line in read(&path).lines() {
        if let Some(layer) = line.strip_prefix("## ") {
            section = layer.to_owned();
        } else if line.starts_with("| `") {
            let (row, pinned) = line.trim_end_matches(" |").rsplit_once(" | ").expect("columns");
            let row = (format!("{row} |"), pinned.to_owned());
            rows.entry(section.clone()).or_default().push(row);
        }
    }
    rows
}

#[test]
fn table_lists_every_threshold_with_its_value() {
    let thresholds = thresholds();
    let values = values(&thresholds);
    let mut rows = rows();
    for layer in LAYERS {
        let of_layer = thresholds.iter().filter(|it| it.layer == layer);
        let stated: Vec<_> = of_layer.map(|it| it.row(&values)).collect();
        let listed = rows.remove(layer).unwrap_or_default().into_iter();
        let listed: Vec<_> = listed.map(|(row, _)| row).collect();
        let missing: Vec<_> = stated.iter().filter(|row| !listed.contains(row)).collect();
        let extra: Vec<_> = listed.iter().filter(|row| !stated.contains(row)).collect();
        assert!(
            missing.is_empty() && extra.is_empty(),
            "docs/thresholds.md, {layer}: missing rows\n{missing:#?}\nrows of no constant\n{extra:#?}"
        );
        assert_eq!(listed, stated, "docs/thresholds.md, {layer}: the order of the file");
    }
    assert!(rows.is_empty(), "docs/thresholds.md: rows in sections of no layer: {rows:#?}");
}

/// The names of all traces and of all test functions of the core.
fn tests() -> BTreeSet<String> {
    let (mut names, mut folders) = (BTreeSet::new(), vec![source().to_owned()]);
    folders.push(source().join("../tests"));
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).expect("a folder") {
            let path = entry.expect("an entry").path();
            let stem = path.file_stem().expect("a name").to_string_lossy().into_owned();
            match path.extension().and_then(|extension| extension.to_str()) {
                _ if path.is_dir() => folders.push(path),
                Some("trace") => drop(names.insert(stem)),
                Some("rs") => {
                    let text = read(&path);
                    let functions = text.lines().filter_map(|line| {
                        line.trim_start().strip_prefix("fn ")?.strip_suffix("() {")
                    });
                    names.extend(functions.map(str::to_owned));
                }
                _ => {}
            }
        }
    }
    names
}

#[test]
fn table_names_traces_and_tests_that_exist() {
    let tests = tests();
    for (row, pinned) in rows().into_values().flatten() {
        let names = pinned.split(", ").filter(|&name| name != "no test");
        for name in names.map(|name| name.trim_matches('`')) {
            let function = name.rsplit("::").next().expect("a name");
            assert!(tests.contains(function), "{row}: there is no trace or test {name}");
        }
    }
}

#[test]
fn every_threshold_states_its_source() {
    for it in thresholds() {
        assert!(it.doc.contains(" Source: "), "{}: its comment states no source", it.name);
    }
}

#[test]
fn every_file_of_thresholds_is_listed() {
    for entry in fs::read_dir(source()).expect("a folder") {
        let path = entry.expect("an entry").path();
        let layer = path.file_name().and_then(|name| name.to_str()).expect("a name");
        let has_file = path.join("thresholds.rs").exists();
        assert_eq!(has_file, LAYERS.contains(&layer), "{layer}");
    }
}

#[test]
fn expressions_have_the_value_that_the_compiler_gives_them() {
    let known = BTreeMap::from([("A_NS".to_owned(), 200.0)]);
    let all = ["A_NS - A_NS / 10", "5 + 8 + 16 + 17", "1 << 16", "A_NS as u16 / 2", "9 - 3 - 2"];
    assert_eq!(all.map(|it| value(it, &known)), [180.0, 46.0, 65_536.0, 100.0, 4.0]);
    assert_eq!(with_unit("A_NS", 36e6), "36 ms");
    assert_eq!(with_unit("A_BYTES", 14_600.0), "14,600 bytes");
}
