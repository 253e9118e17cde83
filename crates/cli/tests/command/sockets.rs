//! `tcpwhy sockets` on sockets of this process.

use serde_json::Value;
use std::io::Write;
use std::net::{TcpListener, TcpStream};
use std::process::{Command, Output};
use std::time::Duration;

fn tcpwhy(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_tcpwhy")).args(arguments).output().expect("tcpwhy runs")
}

fn json(arguments: &[&str]) -> Value {
    let out = tcpwhy(&[arguments, &["--json"]].concat());
    let report = serde_json::from_slice(&out.stdout).expect("JSON");
    let schema = include_str!("../../../../docs/sockets.schema.json");
    let schema = serde_json::from_str(schema).expect("a schema");
    let validator = jsonschema::validator_for(&schema).expect("a valid schema");
    let errors: Vec<_> = validator.iter_errors(&report).map(|error| error.to_string()).collect();
    assert_eq!(errors, Vec::<String>::new());
    report
}

/// A listener, a connection to it, and its accepted end.
fn connected() -> (TcpListener, TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let client = TcpStream::connect(listener.local_addr().expect("an address")).expect("accepted");
    let (server, _) = listener.accept().expect("a connection");
    (listener, client, server)
}

fn socket(report: &Value, is: impl Fn(&Value) -> bool) -> &Value {
    let sockets = report["sockets"].as_array().expect("sockets");
    sockets.iter().find(|&socket| is(socket)).expect("the socket")
}

/// Options of other processes' sockets need `CAP_SYS_PTRACE`, which only root is sure to have.
fn options_are_readable(socket: &Value) -> bool {
    if socket["options_unread"].is_null() {
        return true;
    }
    let reason = &socket["options_unread"];
    assert!(!tcpwhy_testing::is_root(), "root may read options: {reason}");
    tcpwhy_testing::skip(&format!("options of other processes need root here ({reason})"));
    false
}

#[test]
fn options_of_another_process_are_read_and_the_listener_is_known() {
    let (listener, client, server) = connected();
    client.set_nodelay(true).expect("an option");
    let port = listener.local_addr().expect("an address").port();
    let report = json(&["sockets", "--port", &port.to_string()]);
    let own = |socket: &Value| socket["process"]["pid"] == std::process::id();
    let listening = socket(&report, |it| it["state"] == "listen");
    assert_eq!(listening["listener"]["accept_queue"], 0);
    assert_eq!(listening["peer"], Value::Null);
    let near = socket(&report, |it| it["local"] == client.local_addr().unwrap().to_string());
    let far = socket(&report, |it| {
        it["local"] == server.local_addr().unwrap().to_string() && it["peer"] != Value::Null
    });
    assert!(own(near) && own(far) && own(listening));
    assert_eq!((&near["is_server"], &far["is_server"]), (&false.into(), &true.into()));
    if options_are_readable(near) {
        assert_eq!((&near["nodelay"], &far["nodelay"]), (&true.into(), &false.into()));
        assert_eq!(far["verdicts"][0]["cause"], "nagle_delayed_ack");
        assert_eq!(far["verdicts"][0]["strength"], "can_limit");
        assert_eq!(near["verdicts"], Value::Array(Vec::new()));
    }
}

#[test]
fn unread_data_closes_the_window_and_is_named_at_both_ends() {
    let (listener, mut client, server) = connected();
    client.set_nonblocking(true).expect("an option");
    while client.write(&[0; 65_536]).is_ok() {}
    let port = listener.local_addr().expect("an address").port().to_string();
    // The last segments are on their way, and the window closes with the next probe's answer.
    let closed = (0..50).any(|_| {
        std::thread::sleep(Duration::from_millis(100));
        let out = tcpwhy(&["sockets", "--port", &port]);
        let text = String::from_utf8_lossy(&out.stdout).into_owned();
        let both = text.matches("LIMITS  zero_window").count() == 2;
        assert!(!both || out.status.code() == Some(1), "{text}");
        both
    });
    assert!(closed, "both ends have a closed window after 5 s");
    let report = json(&["sockets", "--pid", &std::process::id().to_string()]);
    let reader = socket(&report, |it| {
        it["local"] == server.local_addr().unwrap().to_string()
            && it["peer"] == client.local_addr().unwrap().to_string()
    });
    assert!(reader["unread_bytes"].as_u64() > Some(0));
    assert_eq!(reader["verdicts"][0]["cause"], "zero_window");
}

#[test]
fn what_does_not_exist_is_an_error_with_a_way_on() {
    let out = tcpwhy(&["sockets", "--pid", "4194305"]);
    assert_eq!(out.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&out.stderr).contains("pgrep"));
    let out = tcpwhy(&["sockets", "--netns", "no-such-namespace"]);
    assert_eq!(out.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&out.stderr).contains("ip netns list"));
    let out = tcpwhy(&["sockets", "10.0.0.300"]);
    assert_eq!(out.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&out.stderr).contains("10.0.0.7:5432"));
}
