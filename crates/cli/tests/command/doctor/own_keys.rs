//! The secrets of tcpwhy's own connections open what it captures of them, and are in no output.

use super::http2::nginx;
use super::*;
use tcpwhy_testing::{Folder, privileged};

/// A value in a header of each request.
const VALUE: &str = "h-7d1e93ab";

/// Kinds of requests of the endpoint at `port`, and its protocol.
fn kinds(report: &Value, port: u16) -> Vec<String> {
    let endpoints = report["endpoints"].as_array().expect("a list").iter();
    let of_port = endpoints.filter(|it| {
        let endpoint = it["endpoint"].as_str().unwrap_or_default();
        endpoint.ends_with(&format!(":{port}"))
    });
    let kinds = of_port.flat_map(|it| it["kinds"].as_array().expect("a list"));
    kinds.filter_map(|it| it["kind"].as_str().map(str::to_owned)).collect()
}

#[test]
fn the_exchanges_of_the_doctor_and_of_a_load_inside_tls_are_named() {
    if !privileged("a capture of own packets") {
        return;
    }
    let Some(nginx) = nginx() else { return };
    let url = format!("https://localhost:{}/items/7", nginx.tls);
    let header = format!("X-Value: {VALUE}");
    let both = [&url, "--insecure", "--header", &header];
    for version in ["--http1.1", "--http2"] {
        let folder = Folder::new();
        let bundle = folder.join("bundle");
        let bundle_words = ["--bundle", bundle.to_str().expect("a name")];
        let more = [version, "--no-load", "--no-experiments"];
        let (report, _) = report(&[&both[..], &more, &bundle_words].concat());
        let named = kinds(&report, nginx.tls);
        assert!(named.iter().any(|kind| kind == "GET /items/{id}"), "{version}: {named:?}");
        let mut files = 0;
        for file in std::fs::read_dir(&bundle).expect("a folder") {
            let bytes = std::fs::read(file.expect("a file").path()).expect("its content");
            let has_value = bytes.windows(VALUE.len()).any(|it| it == VALUE.as_bytes());
            assert!(!has_value && !bytes.is_empty(), "{version}");
            files += 1;
        }
        assert_eq!(files, 4);
    }
    let mut load = Command::new(env!("CARGO_BIN_EXE_tcpwhy"));
    let load = load.arg("load").args(both).args(["-d", "500ms", "-c", "2", "--json"]);
    let out = load.output().expect("tcpwhy runs");
    let document: Value = serde_json::from_slice(&out.stdout).expect("JSON");
    // A connection that is captured from the middle on, after a pause to keep within the budget, is not opened.
    let said = document["observations"].as_array().expect("a list").iter();
    let opened: u64 = said
        .filter_map(|it| match it["id"].as_str() {
            Some("tls_opened") => it["facts"]["connections"].as_u64(),
            Some("tls_keys") => it["facts"]["opened"].as_u64(),
            _ => None,
        })
        .sum();
    assert!((1..=2).contains(&opened), "{:#}", document["observations"]);
    assert!(!String::from_utf8_lossy(&out.stdout).contains(VALUE));
}
