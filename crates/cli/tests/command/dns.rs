//! `tcpwhy dns` beside getaddrinfo of this system, with name servers in a network namespace. Without
//! root these tests are skipped and say so; what needs dnsmasq is skipped where it is not installed.

use serde_json::Value;
use std::io::{Read, Write};
use std::net::{IpAddr, TcpListener};
use std::path::PathBuf;
use std::process::{Command, Output};
use std::thread;
use std::time::Duration;
use tcpwhy_lab::dns::{AAAA, Behaviour, NameServer, command, dnsmasq};
use tcpwhy_lab::error::LabError;
use tcpwhy_lab::netns::Netns;
use tcpwhy_testing::{Folder, undisturbed};

const NAME: &str = "db.lab";

fn address() -> IpAddr {
    [192, 0, 2, 7].into()
}

/// A namespace with name servers at 127.0.0.1, 127.0.0.2, … and a resolv.conf that lists them.
struct Place {
    netns: Netns,
    servers: Vec<NameServer>,
    folder: Folder,
}

impl Place {
    /// `None`: not root, and the test is skipped.
    fn new(servers: Vec<Behaviour>, options: &str) -> Option<Place> {
        if !tcpwhy_testing::privileged("network namespaces") {
            return None;
        }
        let netns = Netns::create("client").expect("a namespace");
        let mut text = format!("options timeout:1 attempts:2\n{options}\n");
        let start = |(index, behaviour)| {
            let at: IpAddr = [127, 0, 0, index as u8 + 1].into();
            text += &format!("nameserver {at}\n");
            NameServer::start(&netns, at, behaviour).expect("a name server")
        };
        let servers: Vec<NameServer> = servers.into_iter().enumerate().map(start).collect();
        let place = Place { netns, servers, folder: Folder::new() };
        std::fs::write(place.resolv_conf(), text).expect("a file");
        Some(place)
    }

    fn resolv_conf(&self) -> PathBuf {
        self.folder.join("resolv.conf")
    }

    /// `tcpwhy dns` with that file in the place of /etc/resolv.conf: exit status and report.
    fn dns(&self, more: &[&str]) -> (Option<i32>, Value) {
        let mut command = command(&self.netns, &self.resolv_conf(), env!("CARGO_BIN_EXE_tcpwhy"));
        let out = command.args(["dns", "--json"]).args(more).output().expect("it runs");
        read(&out, include_str!("../../../../docs/dns.schema.json"))
    }

    /// `tcpwhy URL` with that file in the place of /etc/resolv.conf.
    fn doctor(&self, url: &str, experiments: &str) -> Output {
        let mut command = command(&self.netns, &self.resolv_conf(), env!("CARGO_BIN_EXE_tcpwhy"));
        let only = ["--json", "--no-load", "--no-path", experiments];
        command.args(["doctor", url]).args(only).output().expect("it runs")
    }

    /// Answers HTTP requests at port 80 of this address, to the end of the process.
    fn serve_http(&self, here: IpAddr) {
        let bound = self.netns.inside(|| TcpListener::bind((here, 80))).expect("the namespace");
        let listener = bound.expect("a port");
        thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream = stream.expect("a connection");
                let mut bytes = [0; 4096];
                while matches!(stream.read(&mut bytes), Ok(1..)) {
                    let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
                }
            }
        });
    }
}

fn read(out: &Output, schema: &str) -> (Option<i32>, Value) {
    let report: Value = serde_json::from_slice(&out.stdout)
        .unwrap_or_else(|_| panic!("no JSON: {}", String::from_utf8_lossy(&out.stderr)));
    let schema = serde_json::from_str(schema).expect("a schema");
    let validator = jsonschema::validator_for(&schema).expect("a valid schema");
    let errors: Vec<_> = validator.iter_errors(&report).map(|it| it.to_string()).collect();
    assert_eq!(errors, Vec::<String>::new());
    (out.status.code(), report)
}

/// Seconds, rounded.
fn seconds(ns: &Value) -> u64 {
    (ns.as_u64().expect("a time") + 500_000_000) / 1_000_000_000
}

#[test]
fn what_getaddrinfo_waits_is_foreseen() {
    let healthy = || Behaviour::healthy(NAME, address());
    let without_aaaa = Behaviour { ignores: vec![AAAA], ..healthy() };
    let failing = Behaviour { fails: true, ..healthy() };
    for (test, servers, options, waits_s, causes) in [
        ("healthy", vec![healthy()], "", 0, vec![]),
        ("dead", vec![Behaviour::dead(), healthy()], "", 1, vec!["dns_timeout"]),
        ("without_aaaa", vec![without_aaaa.clone()], "", 3, vec!["dns_timeout"]),
        ("in_turn", vec![without_aaaa], "options single-request", 2, vec!["dns_timeout"]),
        ("failing", vec![failing, healthy()], "", 0, vec!["dns_failure"]),
    ] {
        let Some(place) = Place::new(servers, options) else { return };
        undisturbed(|| {
            let (status, report) = place.dns(&[NAME, "--count", "2"]);
            let found = report["findings"].as_array().expect("findings").iter();
            // The reverse zone of these servers is empty, and they say so.
            let found: Vec<_> = found.map(|it| it["cause"].as_str().expect("a cause")).collect();
            assert_eq!(found, causes, "{test}");
            assert_eq!(status, Some(i32::from(!causes.is_empty())), "{test}");
            assert_eq!(seconds(&report["expected"]["took_ns"]), waits_s, "{test}: expected");
            assert_eq!(seconds(&report["getaddrinfo"]["took_ns"]), waits_s, "{test}: glibc's own");
            assert_eq!(report["getaddrinfo"]["addresses"][0], address().to_string(), "{test}");
        });
    }
}

#[test]
fn the_search_list_is_walked_as_glibc_does() {
    let delay = Duration::from_millis(100);
    let server = Behaviour { delay, ..Behaviour::healthy(NAME, address()) };
    let options = "search a.lab b.lab\noptions ndots:3";
    let Some(place) = Place::new(vec![server], options) else { return };
    let (status, report) = place.dns(&[NAME, "--count", "2"]);
    assert_eq!(status, Some(1));
    let causes = report["findings"].as_array().expect("findings");
    assert!(causes.iter().any(|it| it["cause"] == "dns_search"), "{causes:?}");
    // Three names of two types, asked for by getaddrinfo beside what was announced.
    let questions = place.servers[0].questions();
    assert_eq!(questions, report["queries_sent"].as_u64().expect("a number") + 6);
    for waited in [&report["getaddrinfo"]["took_ns"], &report["expected_again"]["took_ns"]] {
        assert!(waited.as_u64().expect("a time") >= 300_000_000, "a round trip each: {waited}");
    }
}

#[test]
fn a_cache_before_a_slow_server_shows_itself() {
    let delay = Duration::from_millis(200);
    let slow = Behaviour { delay, ..Behaviour::healthy(NAME, address()) };
    let Some(place) = Place::new(vec![slow], "") else { return };
    let cache: IpAddr = [127, 0, 0, 9].into();
    let options = ["--server=127.0.0.1".to_owned(), "--cache-size=100".to_owned()];
    let _dnsmasq = match dnsmasq(&place.netns, cache, &options) {
        Err(LabError::Missing { .. }) => {
            tcpwhy_testing::skip("dnsmasq is not installed");
            return;
        }
        started => started.expect("dnsmasq"),
    };
    let both = ["--server", "127.0.0.9", "--server", "127.0.0.1"];
    let (status, report) = place.dns(&[&[NAME, "--type", "A"], &both[..]].concat());
    let servers = report["servers"].as_array().expect("servers");
    assert_eq!(servers[0]["cache"], "filled", "{report}");
    assert_eq!(servers[1]["cache"], "not_shown", "{report}");
    assert_eq!(report["getaddrinfo"], Value::Null, "it asks those of resolv.conf alone");
    // The cache is the first server: what is slow behind it costs one look-up, once.
    assert_eq!(status, Some(0), "{}", report["findings"]);
    // The answer that there is no AAAA record comes without SOA and is therefore not cached (RFC
    // 2308 §5), so it is slow each time.
    let (status, report) = place.dns(&[&[NAME], &both[..]].concat());
    assert_eq!((status, &report["findings"][0]["cause"]), (Some(1), &Value::from("dns_slow")));
}

#[test]
fn a_walk_to_a_name_without_an_address_names_the_server_at_fault() {
    let failing = Behaviour { fails: true, ..Behaviour::healthy(NAME, address()) };
    for (test, server, cause) in
        [("servfail", failing, "dns_failure"), ("silent", Behaviour::dead(), "dns_timeout")]
    {
        let Some(place) = Place::new(vec![server], "") else { return };
        let out = place.doctor(&format!("http://{NAME}/"), "--no-experiments");
        let (status, report) = read(&out, include_str!("../../../../docs/report.schema.json"));
        let finding = &report["findings"][0];
        assert_eq!((status, &finding["cause"]), (Some(1), &Value::from(cause)), "{test}");
        assert_eq!(finding["culprit"]["role"], "resolver", "{test}");
        assert_eq!(finding["culprit"]["endpoint"], "127.0.0.1:53", "{test}");
        assert_eq!(report["ledger"]["dns"], report["totals"]["wall_ns"], "{test}");
        assert_eq!(report["doctor"]["address"], Value::Null, "{test}");
    }
}

#[test]
fn a_name_that_does_not_exist_is_no_fault_of_its_servers() {
    let knows_another = Behaviour::healthy("other.lab", address());
    let Some(place) = Place::new(vec![knows_another], "") else { return };
    let out = place.doctor(&format!("http://{NAME}/"), "--no-experiments");
    assert_eq!((out.status.code(), out.stdout.len()), (Some(2), 0));
    let said = String::from_utf8_lossy(&out.stderr);
    assert!(said.contains("db.lab does not resolve"), "{said}");
}

#[test]
fn a_walk_that_waits_for_a_dead_name_server_names_it() {
    let here = IpAddr::from([127, 0, 0, 1]);
    let servers = vec![Behaviour::dead(), Behaviour::healthy(NAME, here)];
    let Some(place) = Place::new(servers, "") else { return };
    place.serve_http(here);
    undisturbed(|| {
        let out = place.doctor(&format!("http://{NAME}/"), "--experiment=quickack");
        let (status, report) = read(&out, include_str!("../../../../docs/report.schema.json"));
        let finding = &report["findings"][0];
        assert_eq!((status, &finding["cause"]), (Some(1), &Value::from("dns_timeout")), "{report}");
        assert_eq!(finding["culprit"]["endpoint"], "127.0.0.1:53");
        assert_eq!(seconds(&report["doctor"]["layers"]["name_ns"]), 1);
        let agree = finding["evidence_kinds"]["agree"].as_array().expect("kinds");
        assert!(agree.contains(&"experiment".into()), "a slow look-up suggests it: {finding}");
        let made = report["experiments"].as_array().expect("experiments");
        let resolver = made.iter().find(|it| it["experiment"] == "resolver").expect("one");
        assert_eq!(
            (&resolver["verdict"], seconds(&resolver["effect_ns"])),
            (&"supports".into(), 1)
        );
    });
}

#[test]
fn a_walk_names_a_first_name_server_that_fails_at_once_though_the_look_up_is_quick() {
    let here = IpAddr::from([127, 0, 0, 1]);
    let healthy = || Behaviour::healthy(NAME, here);
    let failing = Behaviour { fails: true, ..healthy() };
    for (test, servers, causes) in [
        ("failing_first", vec![failing.clone(), healthy()], &["dns_failure"][..]),
        ("failing_second", vec![healthy(), failing], &[]),
        ("two_healthy", vec![healthy(), healthy()], &[]),
    ] {
        let Some(place) = Place::new(servers, "") else { return };
        place.serve_http(here);
        // After a slow look-up every server is asked.
        undisturbed(|| {
            let out = place.doctor(&format!("http://{NAME}/"), "--no-experiments");
            let (status, report) = read(&out, include_str!("../../../../docs/report.schema.json"));
            let findings = report["findings"].as_array().expect("findings");
            let found: Vec<_> =
                findings.iter().map(|it| it["cause"].as_str().expect("it")).collect();
            assert_eq!(found, causes, "{test}: {report}");
            assert_eq!(status, Some(i32::from(!causes.is_empty())), "{test}");
            let name_ns = report["doctor"]["layers"]["name_ns"].as_u64().expect("a time");
            assert!(name_ns < 1_000_000_000, "{test}: nothing is waited for");
        });
    }
}

#[test]
fn what_cannot_be_asked_is_said_in_a_sentence() {
    for (words, said) in [
        (&["dns", "a..b"][..], "is no name"),
        (&["dns", "db.lab", "--type", "nonsense"], "no such type"),
        (&["dns", "db.lab", "--server", "dns.lab"], "write the address"),
        (&["dns", "db.lab", "--resolv-conf", "/nowhere/resolv.conf"], "cannot be read"),
        (&["dns", "db.lab", "--trace"], "--root"),
    ] {
        let out = Command::new(env!("CARGO_BIN_EXE_tcpwhy")).args(words).output().expect("it runs");
        let stderr = String::from_utf8_lossy(&out.stderr);
        assert_eq!(out.status.code(), Some(2), "{words:?}");
        assert!(stderr.contains(said), "{words:?}: {stderr}");
    }
}
