//! `tcpwhy FILE --parquet DIR`: the tables agree with the report and with each other, and DuckDB
//! answers the question of docs/parquet.md from them.

use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::{Field, Row};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

const NAMES: [&str; 5] = ["connections", "exchanges", "stalls", "lookups", "findings"];

fn captures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/captures")
}

/// An empty folder for one test's files.
fn folder(name: &str) -> PathBuf {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).expect("a folder");
    folder
}

/// Runs `tcpwhy FILE… --json --parquet FOLDER`.
fn write_tables(files: &[PathBuf], folder: &Path) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tcpwhy"));
    command.args(files).arg("--json").arg("--parquet").arg(folder);
    command.stdin(Stdio::null()).output().expect("tcpwhy runs")
}

/// The report and the tables of the same files.
struct Written {
    report: Value,
    tables: BTreeMap<&'static str, Vec<BTreeMap<String, Field>>>,
}

impl Written {
    fn of(files: &[PathBuf], folder: &Path) -> Self {
        let output = write_tables(files, folder);
        let error = String::from_utf8_lossy(&output.stderr);
        let report = serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{error}"));
        let tables = NAMES.map(|name| (name, rows(&folder.join(format!("{name}.parquet")))));
        Self { report, tables: tables.into() }
    }
}

fn rows(file: &Path) -> Vec<BTreeMap<String, Field>> {
    let reader = SerializedFileReader::new(File::open(file).expect("a table")).expect("Parquet");
    let row = |row: Row| row.into_columns().into_iter().collect();
    reader.get_row_iter(None).expect("rows").map(|it| row(it.expect("a row"))).collect()
}

fn integer(row: &BTreeMap<String, Field>, column: &str) -> u64 {
    match &row[column] {
        Field::Long(value) => u64::try_from(*value).expect("not negative"),
        other => panic!("{column}: {other}"),
    }
}

fn text<'a>(row: &'a BTreeMap<String, Field>, column: &str) -> &'a str {
    match &row[column] {
        Field::Str(value) => value,
        other => panic!("{column}: {other}"),
    }
}

/// The columns of the ledger of `report`'s form.
fn owners(report: &Value) -> Vec<String> {
    let ledger = report["ledger"].as_object().expect("a ledger");
    ledger.keys().map(|owner| format!("{owner}_ns")).collect()
}

type Key = (u64, u64, u64);

fn exchange_key(row: &BTreeMap<String, Field>) -> Key {
    (integer(row, "file"), integer(row, "connection"), integer(row, "exchange"))
}

/// Checks what holds for the tables of any capture.
fn check(name: &str, written: &Written) {
    let Written { report, tables } = written;
    let owners = owners(report);
    let ledger = |row| owners.iter().map(|owner| integer(row, owner)).collect::<Vec<u64>>();
    let totals = &report["totals"];
    for table in ["connections", "exchanges", "lookups"] {
        assert_eq!(totals[table], tables[table].len(), "{name}: {table}");
    }

    // The ledger of each exchange sums to its duration, and that of a connection is their sum.
    let mut of_connections: BTreeMap<(u64, u64), Vec<u64>> = BTreeMap::new();
    let mut of_exchanges: BTreeMap<Key, &BTreeMap<String, Field>> = BTreeMap::new();
    for exchange in &tables["exchanges"] {
        let ledger = ledger(exchange);
        assert_eq!(ledger.iter().sum::<u64>(), integer(exchange, "wall_ns"), "{name}");
        let key = exchange_key(exchange);
        assert!(of_exchanges.insert(key, exchange).is_none(), "{name}: {key:?} stands twice");
        let sum = of_connections.entry((key.0, key.1)).or_insert_with(|| vec![0; owners.len()]);
        sum.iter_mut().zip(ledger).for_each(|(sum, ns)| *sum += ns);
    }
    for connection in &tables["connections"] {
        let key = (integer(connection, "file"), integer(connection, "connection"));
        let sum = of_connections.remove(&key).unwrap_or_else(|| vec![0; owners.len()]);
        assert_eq!(sum, ledger(connection), "{name}: {key:?}");
    }
    assert!(of_connections.is_empty(), "{name}: exchanges without a connection");

    // A stall is part of an exchange.
    for stall in &tables["stalls"] {
        let exchange = of_exchanges[&exchange_key(stall)];
        let owned_ns = integer(stall, "owned_ns");
        assert!(0 < owned_ns && owned_ns <= integer(exchange, "wall_ns"), "{name}");
    }

    // The findings are those of the report.
    let findings = report["findings"].as_array().expect("findings");
    let in_report: Vec<_> = findings
        .iter()
        .map(|it| (it["cause"].as_str().expect("an id"), it["lost_ns"].as_u64().expect("ns")))
        .collect();
    let in_table: Vec<_> =
        tables["findings"].iter().map(|it| (text(it, "cause"), integer(it, "lost_ns"))).collect();
    assert_eq!(in_report, in_table, "{name}");
}

#[test]
fn the_tables_of_every_stored_capture_agree_with_its_report() {
    let folder = folder("parquet-all");
    let mut files: Vec<PathBuf> =
        fs::read_dir(captures()).expect("captures").map(|it| it.expect("one").path()).collect();
    files.sort();
    assert!(!files.is_empty());
    let mut stalls = 0;
    for file in files {
        let written = Written::of(std::slice::from_ref(&file), &folder);
        check(&file.display().to_string(), &written);
        stalls += written.tables["stalls"].len();
    }
    assert!(stalls > 0);
}

#[test]
fn each_exchange_of_several_captures_is_shown_once() {
    let folder = folder("parquet-several");
    let two = ["both_ends-client.pcap", "both_ends-server.pcap"].map(|it| captures().join(it));
    check("two places", &Written::of(&two, &folder));
    let several = ["loss_tail.pcap", "slow_backend.pcap.zst"].map(|it| captures().join(it));
    let written = Written::of(&several, &folder);
    check("several captures", &written);
    let files = written.tables["exchanges"].iter().map(|it| integer(it, "file"));
    assert_eq!(files.collect::<BTreeSet<u64>>(), BTreeSet::from([0, 1]));
}

#[test]
fn the_document_describes_every_column() {
    let folder = folder("parquet-columns");
    // Each table has a row.
    let several = ["loss_tail.pcap", "dns_timeout.pcap"].map(|it| captures().join(it));
    let written = Written::of(&several, &folder);
    let document = include_str!("../../../../docs/parquet.md");
    let owners: BTreeSet<String> = owners(&written.report).into_iter().collect();
    assert!(owners.iter().all(|it| document.contains(&format!("`{it}`"))), "the ledger");
    for (table, rows) in &written.tables {
        let section = document.split("\n## ").find(|it| it.starts_with(&format!("`{table}.parq")));
        let section = section.unwrap_or_else(|| panic!("{table} has no section"));
        let described: BTreeSet<&str> = section
            .lines()
            .filter(|it| it.starts_with("| `"))
            .flat_map(|line| line.split('|').nth(1).expect("a cell").split(", "))
            .map(|name| name.trim().trim_matches('`'))
            .collect();
        for column in rows[0].keys().filter(|it| !owners.contains(*it)) {
            let of_direction = ["client_", "server_"].iter().find_map(|it| column.strip_prefix(it));
            let of_direction = of_direction.map(|it| format!("…_{it}"));
            let is_described = described.contains(column.as_str())
                || of_direction.is_some_and(|it| described.contains(it.as_str()));
            assert!(is_described, "{table}: {column}");
        }
    }
}

/// Python with DuckDB, where `scripts/setup.sh test` has put it.
fn duckdb() -> Option<PathBuf> {
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent()?;
    let python = target.join("python/bin/python");
    python.exists().then_some(python)
}

#[test]
fn duckdb_answers_p99_by_endpoint_and_cause() {
    let Some(python) = duckdb() else {
        tcpwhy_testing::skip("DuckDB is not installed (scripts/setup.sh test)");
        return;
    };
    let folder = folder("parquet-duckdb");
    write_tables(&[captures().join("nginx_nodelay_off.pcap")], &folder.join("tables"));
    let document = include_str!("../../../../docs/parquet.md");
    let query = document.split("```sql\n").nth(1).and_then(|it| it.split("```").next());
    let program = "import duckdb, json, sys\n\
        print(json.dumps(duckdb.sql(sys.argv[1]).fetchall(), default=str))";
    let output = Command::new(python)
        .args(["-c", program, query.expect("a query")])
        .current_dir(&folder)
        .output()
        .expect("Python runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let answer: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let worst = &answer[0];
    assert_eq!(worst[1], "nagle_delayed_ack", "{answer}");
    assert_eq!((&worst[2], &worst[3]), (&40.into(), &39.into()), "{answer}");
    let [now, without] = [4, 5].map(|column| worst[column].as_f64().expect("ms"));
    assert!(now > 40.0 && without < 1.0, "{answer}");
}

#[test]
fn what_cannot_be_done_is_said_in_a_sentence_and_leaves_no_file() {
    let folder = folder("parquet-errors");
    let capture = captures().join("loss_tail.pcap");
    let says = |output: &Output, words: &str| {
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{error}");
        assert!(error.contains(words), "{error}");
    };
    // A file stands where the folder would be.
    let file = folder.join("file");
    fs::write(&file, "text").expect("a file");
    says(&write_tables(std::slice::from_ref(&capture), &file), "file");
    assert_eq!(fs::read(&file).expect("still there"), b"text");
    // The input cannot be read a second time.
    let folder = folder.join("tables");
    says(&write_tables(&["-".into()], &folder), "read the capture twice");
    // The file does not exist.
    says(&write_tables(&[folder.join("none.pcap")], &folder), "none.pcap");
    let left = fs::read_dir(&folder).map_or(0, Iterator::count);
    assert_eq!(left, 0, "files are left");
}
