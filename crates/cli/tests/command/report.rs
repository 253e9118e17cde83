//! `tcpwhy report`: the page says what the JSON says, stays small, and what is in a capture stays data. What a
//! browser makes of it is tested in `web/test`.

use serde_json::{Value, json};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn captures() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../testdata/captures")
}

fn tcpwhy(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_tcpwhy")).args(arguments).output().expect("tcpwhy runs")
}

/// Returns the data in a page.
fn data(page: &str) -> Value {
    let data = page.split(r#"<script type="application/json" id="data">"#).nth(1).expect("data");
    let data = data.split("</script>").next().expect("an end");
    serde_json::from_str(data).expect("the data is JSON")
}

/// The page of `file`, and what it has of its run.
fn page(file: &Path) -> (String, Value) {
    let output = tcpwhy(&["report", &file.display().to_string(), "-o", "-", "--no-progress"]);
    assert!(output.status.code() < Some(2), "{}", String::from_utf8_lossy(&output.stderr));
    let page = String::from_utf8(output.stdout).expect("UTF-8");
    let run = data(&page)["runs"][0].take();
    (page, run)
}

/// The report of `file`.
fn report_of(file: &Path) -> Value {
    let output = tcpwhy(&[&file.display().to_string(), "--json", "--no-progress"]);
    serde_json::from_slice(&output.stdout).expect("a report")
}

#[test]
fn the_page_says_what_the_json_says_of_every_stored_capture() {
    let files = fs::read_dir(captures()).expect("captures").map(|it| it.expect("a file").path());
    let mut files: Vec<_> = files.filter(|it| it.to_string_lossy().contains(".pcap")).collect();
    files.sort();
    assert!(files.len() > 40, "{}", files.len());
    let (mut drawn, mut listed) = (0, 0);
    for file in files {
        let name = file.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let (page, data) = page(&file);
        assert!(page.len() < 3_000_000, "{name}: {} bytes", page.len());
        assert_eq!(data["report"], report_of(&file), "{name}");
        let picture = &data["picture"];
        let rows = picture["exchanges"]["rows"].as_array().expect("a list");
        let (seen, exchanges) =
            (&picture["exchanges"]["seen"], &data["report"]["totals"]["exchanges"]);
        assert_eq!(seen, exchanges, "{name}");
        listed += rows.len();
        for row in rows {
            let owned: u64 =
                row["ledger"].as_object().expect("owners").values().filter_map(Value::as_u64).sum();
            assert_eq!(Some(owned), row["wall_ns"].as_u64(), "{name}: {row}");
        }
        for drawing in picture["drawings"].as_array().expect("a list") {
            assert!(drawing["ladder"]["steps"].as_array().is_some_and(|it| it.len() > 1), "{name}");
            drawn += 1;
        }
        let with_proof = |it: &&Value| it["connection"].is_object();
        let findings = data["report"]["findings"].as_array().expect("findings");
        let drawings = picture["drawings"].as_array().map_or(0, Vec::len);
        assert_eq!(findings.iter().filter(with_proof).count(), drawings, "{name}");
    }
    assert!(drawn > 20 && listed > 500, "{drawn} drawings, {listed} exchanges");
}

#[test]
fn of_two_places_each_exchange_is_listed_once() {
    let side = |name: &str| captures().join(name).display().to_string();
    let (client, server) = (side("both_ends-client.pcap"), side("both_ends-server.pcap"));
    let output = tcpwhy(&["report", &client, &server, "-o", "-", "--no-progress"]);
    let data = data(&String::from_utf8(output.stdout).expect("UTF-8"))["runs"][0].take();
    assert!(data["report"]["join"].is_object());
    let exchanges = &data["report"]["totals"]["exchanges"];
    assert_eq!(&data["picture"]["exchanges"]["seen"], exchanges);
    let rows = data["picture"]["exchanges"]["rows"].as_array().expect("a list");
    assert_eq!(Some(rows.len() as u64), exchanges.as_u64());
}

#[test]
fn an_exchange_in_the_list_is_the_one_that_can_be_drawn() {
    let file = captures().join("loss_tail.pcap");
    let (_, data) = page(&file);
    let rows = data["picture"]["exchanges"]["rows"].as_array().expect("a list");
    assert!(!rows.is_empty());
    for row in rows {
        let number = row["number"].to_string();
        let client = row["client"].as_str().expect("an address");
        let file = file.display().to_string();
        let output = tcpwhy(&[&file, "--connection", client, "--exchange", &number, "--json"]);
        let ladder: Value = serde_json::from_slice(&output.stdout).expect("a ladder");
        let steps = ladder["steps"].as_array().expect("steps");
        assert!(steps.iter().any(|it| it["frame"] == row["first"][1]), "{row}: {steps:?}");
        assert!(steps.iter().any(|it| it["frame"] == row["last"][1]), "{row}: {steps:?}");
    }
}

/// Returns a step of a ladder as the page has it in brief.
fn brief(step: &Value) -> Value {
    let it = |name: &str| step[name].clone();
    match step["step"].as_str() {
        Some("segment") => {
            json!([it("time_ns"), u8::from(it("from") == "server"), it("frame"), it("label")])
        }
        Some("gap") => {
            let gap = ["duration_ns", "owner", "cause", "since_ns", "until_frame"].map(it);
            json!([it("time_ns"), gap])
        }
        _ => json!([it("time_ns"), it("label")]),
    }
}

#[test]
fn listed_exchanges_are_drawn_as_in_the_terminal() {
    let mut drawn = 0;
    for name in ["nginx_nodelay_off.pcap", "loss_tail.pcap", "tls_handshakes.pcap"] {
        let file = captures().join(name);
        let (_, data) = page(&file);
        let report = &data["report"];
        let connections = data["picture"]["connections"].as_array().expect("a list");
        let exchanges: u64 = connections
            .iter()
            .filter_map(|it| it["exchanges"].as_array())
            .map(|it| it.len() as u64)
            .sum();
        assert_eq!(Some(exchanges), report["totals"]["exchanges"].as_u64(), "{name}");
        for connection in connections {
            let listed = report["connections"].as_array().expect("a list");
            let is_its = |it: &&Value| it["first_frame"]["frame"] == connection["first"][1];
            let number = listed.iter().find(is_its).expect("it is listed")["number"].to_string();
            for exchange in connection["exchanges"].as_array().expect("a list") {
                let (file, nth) = (file.display().to_string(), exchange["number"].to_string());
                let output =
                    tcpwhy(&[&file, "--connection", &number, "--exchange", &nth, "--json"]);
                let ladder: Value = serde_json::from_slice(&output.stdout).expect("a ladder");
                let steps = ladder["steps"].as_array().expect("steps").iter().map(brief);
                assert_eq!(exchange["steps"], steps.collect::<Value>(), "{name}: {nth}");
                drawn += 1;
            }
        }
    }
    assert!(drawn > 50, "{drawn} exchanges");
}

#[test]
fn connections_without_a_finding_have_graphs() {
    let (_, data) = page(&captures().join("nginx_nodelay_off-healthy.pcap"));
    assert_eq!(data["picture"]["drawings"], json!([]));
    let connections = data["picture"]["connections"].as_array().expect("a list");
    assert!(!connections.is_empty());
    assert!(connections.iter().all(|it| it["graphs"]["columns"]["frame"].is_string()));
}

#[test]
fn a_finding_of_the_second_place_is_drawn_as_that_place_saw_it() {
    let side = |name: &str| captures().join(name).display().to_string();
    let (client, server) = (side("both_ends-client.pcap"), side("both_ends-server.pcap"));
    let output = tcpwhy(&["report", &client, &server, "-o", "-", "--no-progress"]);
    let data = data(&String::from_utf8(output.stdout).expect("UTF-8"))["runs"][0].take();
    let proof = &data["report"]["findings"][0]["evidence"][0];
    assert_eq!(proof["file"], *server);
    let steps = data["picture"]["drawings"][0]["ladder"]["steps"].as_array().expect("steps");
    let is_its = |it: &&Value| it["frame"] == proof["frame"] && it["file"] == 1;
    assert!(steps.iter().any(|it| is_its(&it)), "{proof}: {steps:?}");
}

#[test]
fn a_comparison_has_both_runs() {
    let side = |name: &str| captures().join(name).display().to_string();
    let (before, after) = (side("nginx_nodelay_off.pcap"), side("nginx_nodelay_off-healthy.pcap"));
    let file = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("comparison.html");
    let path = file.display().to_string();
    let output = tcpwhy(&["compare", &before, &after, "--json", "-o", &path, "--no-progress"]);
    assert_eq!(output.status.code(), Some(0));
    let page = fs::read_to_string(file).expect("a page");
    let data = data(&page);
    let compared: Value = serde_json::from_slice(&output.stdout).expect("a comparison");
    // Beside what a program reads, the page has the verdict in each other language.
    let mut shown = data["comparison"].clone();
    let sentences = shown.as_object_mut().and_then(|it| it.remove("sentences"));
    assert_eq!(shown, compared);
    assert!(sentences.is_some_and(|it| it["zh"].is_string()));
    for (run, name) in data["runs"].as_array().expect("runs").iter().zip([before, after]) {
        let report = report_of(Path::new(&name));
        assert_eq!(run["report"]["totals"], report["totals"], "{name}");
        assert_eq!(run["report"]["ledger"], report["ledger"], "{name}");
    }
}

#[test]
fn nothing_is_fetched_and_only_the_page_s_own_script_may_run() {
    let (page, _) = page(&captures().join("nginx_nodelay_off.pcap"));
    let policy = page.split("http-equiv=\"Content-Security-Policy\" content=\"").nth(1);
    let policy = policy.and_then(|it| it.split('"').next()).expect("a policy");
    assert!(policy.starts_with("default-src 'none'; script-src 'sha256-"), "{policy}");
    assert!(!policy.contains("unsafe") && !policy.contains("http"), "{policy}");
    assert!(!page.contains(" src=") && !page.contains("@import") && !page.contains("url("));
}

#[test]
fn what_cannot_be_done_is_said_in_a_sentence() {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("no such folder/report.html");
    let file = captures().join("nginx_nodelay_off.pcap").display().to_string();
    let output = tcpwhy(&["report", &file, "-o", &folder.display().to_string()]);
    assert_eq!(output.status.code(), Some(2));
    let words = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(words.contains("cannot be written"), "{words}");
}
