use super::*;
use crate::model::Language;
use crate::state::sentence;
use crate::wire::Side;
use serde_json::{Value, json};

fn end(port: u16, last: u8) -> Endpoint {
    let mut address = [0; 16];
    address[10..12].fill(0xff);
    address[12..].copy_from_slice(&[10, 0, 0, last]);
    Endpoint { address, port }
}

/// Returns a report with a finding about client 10.0.0.1:50000 and server 10.0.0.2:80, in which the
/// server was silent.
fn report(cause: Cause, facts: Vec<(&'static str, Fact)>) -> Report {
    let culprit = Culprit { role: Role::Server, endpoint: end(80, 2) };
    let finding = Finding {
        confidence: 0.8,
        evidence_flow: Some((end(50_000, 1), end(80, 2))),
        sender: Side::Server,
        lost_ns: 1,
        facts,
        ..Finding::of_cause(cause, culprit)
    };
    Report { findings: vec![finding], ..Report::default() }
}

fn state(sockets: Value, netns: Value) -> State {
    let document = json!({ "read_ns": 7, "netns": netns, "sockets": sockets, "later": "ignored" });
    State::parse(document.to_string().as_bytes()).expect("a state")
}

/// Returns a server's socket with the given options.
fn server_socket(options: Value) -> Value {
    let mut socket = json!({
        "local": "10.0.0.2:80", "peer": "10.0.0.1:50000", "is_server": true,
        "process": { "pid": 42, "command": "nginx", "container": null },
    });
    let all = socket.as_object_mut().expect("an object");
    all.extend(options.as_object().expect("an object").clone());
    socket
}

/// Returns a finding of `cause` at the server after weighing.
fn weighed_by(cause: Cause, sockets: Value) -> Finding {
    weighed_with(report(cause, Vec::new()), sockets)
}

fn weighed_with(mut report: Report, sockets: Value) -> Finding {
    weigh(&mut report, &state(sockets, json!([])));
    assert_eq!(report.findings.len(), 1);
    report.findings.remove(0)
}

fn says(finding: &Finding) -> (Option<bool>, f64) {
    (finding.state.first().map(|it| it.agrees), finding.confidence)
}

/// Odds of 4, doubled, are a confidence of 8/9; halved, 2/3.
const SURER: f64 = 0.89;
const LESS_SURE: f64 = 0.67;

#[test]
fn nagle_needs_a_sender_without_nodelay() {
    let with = |nodelay, cork| {
        let socket = server_socket(json!({ "nodelay": nodelay, "cork": cork }));
        weighed_by(Cause::NagleDelayedAck, json!([socket]))
    };
    let agreed = with(Some(false), Some(false));
    assert_eq!(says(&agreed), (Some(true), SURER));
    let evidence = &agreed.state[0];
    assert_eq!(evidence.process.as_deref(), Some("nginx (pid 42)"));
    assert_eq!(evidence.read_ns, Some(7));
    let words = "`TCP_NODELAY` is off on 1 of 1 socket: the kernel holds small segments back";
    assert_eq!(sentence(evidence, Language::English), words);
    assert_eq!(says(&with(Some(true), Some(false))), (Some(false), LESS_SURE));
    assert_eq!(says(&with(Some(true), Some(true))), (Some(true), SURER), "corked");
    assert_eq!(says(&with(None, None)), (None, 0.8), "not read");
}

#[test]
fn sockets_of_other_connections_are_no_evidence() {
    for (local, peer) in [("10.0.0.2:81", "10.0.0.1:50000"), ("10.0.0.3:80", "10.0.0.1:50000")] {
        let socket = json!({ "local": local, "peer": peer, "nodelay": false });
        assert_eq!(says(&weighed_by(Cause::NagleDelayedAck, json!([socket]))), (None, 0.8));
    }
    let mapped = json!({ "local": "[::ffff:10.0.0.2]:80", "peer": "[::ffff:10.0.0.1]:50000",
                         "nodelay": false });
    let finding = weighed_by(Cause::NagleDelayedAck, json!([mapped]));
    assert_eq!(says(&finding), (Some(true), SURER), "the same address on an IPv6 socket");
}

#[test]
fn a_send_buffer_is_fixed_or_limits_or_has_room() {
    let facts = || vec![("ceiling_bytes", Fact::Bytes(16_384))];
    let with = |socket: Value| {
        weighed_with(report(Cause::SendBuffer, facts()), json!([server_socket(socket)]))
    };
    let fixed = json!({ "sndbuf_bytes": 32_768, "sndbuf_locked": true });
    assert_eq!(says(&with(fixed)), (Some(true), SURER));
    let limited = json!({ "sndbuf_bytes": 87_040, "sndbuf_locked": false,
                          "tcp_info": { "tcpi_sndbuf_limited_us": 5_000 } });
    assert_eq!(says(&with(limited)), (Some(true), SURER));
    let grown = json!({ "sndbuf_bytes": 1_000_000, "sndbuf_locked": false });
    assert_eq!(says(&with(grown)), (Some(false), LESS_SURE));
    let small = json!({ "sndbuf_bytes": 46_080, "sndbuf_locked": false });
    assert_eq!(says(&with(small)), (None, 0.8), "it may have limited, and nobody fixed it");
}

#[test]
fn hooks_come_first_and_count_once() {
    let facts = vec![("ceiling_bytes", Fact::Bytes(16_384))];
    let socket = json!({ "sndbuf_bytes": 32_768, "sndbuf_locked": true,
                         "hooked": { "sndbuf_wait_ns": 3_000_000_000_u64 } });
    let finding = weighed_with(report(Cause::SendBuffer, facts), json!([server_socket(socket)]));
    let ids: Vec<_> = finding.state.iter().map(|it| it.id).collect();
    assert_eq!(ids, ["sndbuf_waited", "sndbuf_fixed"]);
    assert_eq!(finding.confidence, SURER, "one kernel, one witness");
    let late = |ns: u64| {
        let hooked = json!({ "hooked": { "unread_ns": ns, "unread_max_ns": ns } });
        weighed_by(Cause::ServerThink, json!([server_socket(hooked)])).state.len()
    };
    assert_eq!((late(15_000_000), late(7_000_000)), (1, 0));
}

#[test]
fn a_receive_window_is_seen_at_both_ends() {
    let receiver = json!({ "local": "10.0.0.1:50000", "peer": "10.0.0.2:80",
                           "rcvbuf_bytes": 16_384, "rcvbuf_locked": true });
    assert_eq!(says(&weighed_by(Cause::ReceiveWindow, json!([receiver]))), (Some(true), SURER));
    let sender = |us: u64| server_socket(json!({ "tcp_info": { "tcpi_rwnd_limited_us": us } }));
    let with = |us| weighed_by(Cause::ReceiveWindow, json!([sender(us)]));
    assert_eq!(says(&with(900)), (Some(true), SURER));
    assert_eq!(says(&with(0)), (Some(false), LESS_SURE));
}

#[test]
fn unread_data_supports_a_slow_reader_and_an_empty_queue_is_no_evidence() {
    let with = |bytes: u64| {
        let reader = json!({ "local": "10.0.0.1:50000", "peer": "10.0.0.2:80",
                             "unread_bytes": bytes });
        weighed_by(Cause::ZeroWindow, json!([reader]))
    };
    assert_eq!(says(&with(65_536)), (Some(true), SURER));
    assert_eq!(says(&with(0)), (None, 0.8));
}

#[test]
fn repeated_segments_are_counted_on_the_connection_itself() {
    let with = |peer: &str, count: u64| {
        let mut socket = server_socket(json!({ "tcp_info": { "tcpi_total_retrans": count } }));
        socket["peer"] = json!(peer);
        weighed_by(Cause::RetransmissionTimeout, json!([socket]))
    };
    assert_eq!(says(&with("10.0.0.1:50000", 3)), (Some(true), SURER));
    assert_eq!(says(&with("10.0.0.1:50000", 0)), (Some(false), LESS_SURE));
    assert_eq!(says(&with("10.0.0.1:50001", 0)), (None, 0.8), "another connection");
}

#[test]
fn a_hook_shows_why_the_kernel_retransmitted() {
    let hooked = json!({ "tcp_info": { "tcpi_total_retrans": 5 },
                         "hooked": { "rto_segments": 2, "fast_segments": 0 } });
    let ids = |cause, hooked: &Value| {
        let finding = weighed_by(cause, json!([server_socket(hooked.clone())]));
        (finding.state.iter().map(|it| it.id).collect::<Vec<_>>(), finding.confidence)
    };
    let timer = vec!["sent_again_by_timer", "retransmitted"];
    assert_eq!(ids(Cause::RetransmissionTimeout, &hooked), (timer, SURER), "one witness");
    assert_eq!(ids(Cause::FastRecovery, &hooked), (vec!["retransmitted"], SURER));
    let finding = weighed_by(Cause::RetransmissionTimeout, json!([server_socket(hooked)]));
    let words =
        "while it was watched, the kernel counted 2 retransmissions by timer on this connection";
    assert_eq!(sentence(&finding.state[0], Language::English), words);
}

#[test]
fn a_process_in_a_container_is_named_with_it() {
    let process = json!({ "process": { "pid": 7, "command": "redis", "container": "0123456789ab" },
                          "nodelay": false });
    let finding = weighed_by(Cause::NagleDelayedAck, json!([server_socket(process)]));
    let name = finding.state[0].process.as_deref();
    assert_eq!(name, Some("redis (pid 7, container 0123456789ab)"));
}

#[test]
fn hook_counts_of_a_closed_socket_get_an_entry_and_those_of_an_open_one_its_own() {
    let mut state = state(json!([server_socket(json!({}))]), json!([]));
    let mut sockets = state.by_ends();
    let end = |text: &str| text.parse().expect("an address");
    let (local, peer) = (end("[::ffff:10.0.0.2]:80"), end("10.0.0.1:50000"));
    sockets.socket(local, peer).hooked.rto_segments = 1;
    sockets.socket(local, end("10.0.0.1:50001")).hooked.rto_segments = 2;
    sockets.socket(local, end("10.0.0.1:50001")).hooked.rto_segments += 2;
    let counts: Vec<_> = state.sockets.iter().map(|it| it.hooked.rto_segments).collect();
    assert_eq!(counts, [1, 4]);
}

#[test]
fn unanswered_syns_to_a_full_listener_are_its_overflow() {
    let listener = |queued: u64, drops: u64| {
        json!({ "local": "0.0.0.0:80", "peer": null, "is_server": true, "drops": drops,
                "listener": { "accept_queue": queued, "backlog": 1, "half_open": 0 } })
    };
    let named = |it: Value, overflows: u64| {
        let netns = json!([{ "name": null, "listen_overflows": overflows }]);
        let mut report = report(Cause::SynRetransmit, Vec::new());
        weigh(&mut report, &state(json!([it]), netns));
        report.findings[0].cause
    };
    assert_eq!(named(listener(2, 0), 0), Cause::AcceptQueueOverflow);
    assert_eq!(named(listener(0, 9), 4), Cause::AcceptQueueOverflow, "it was full");
    assert_eq!(named(listener(0, 9), 0), Cause::SynRetransmit, "it dropped repeated SYNs");
    assert_eq!(named(listener(0, 0), 4), Cause::SynRetransmit, "another listener was full");
    assert_eq!(named(listener(1, 0), 0), Cause::SynRetransmit, "there is room for one more");
    let mut other = listener(2, 9);
    other["local"] = json!("0.0.0.0:81");
    assert_eq!(named(other, 4), Cause::SynRetransmit, "another port");
}

#[test]
fn a_queue_that_another_reading_saw_full_overrules_the_loss() {
    let reading = |queued: u64| {
        let listener = json!({ "local": "0.0.0.0:80", "peer": null, "is_server": true,
                               "listener": { "accept_queue": queued, "backlog": 1, "half_open": 0 } });
        let to = Some(("10.0.0.1:50000", "10.0.0.2:80"));
        let document = json!({ "sockets": [listener], "drops": [drops("filter", "can_hurt", to)] });
        State::parse(document.to_string().as_bytes()).expect("a state")
    };
    let mut report = report(Cause::SynRetransmit, vec![("arrived", Fact::Count(3))]);
    weigh(&mut report, &reading(0));
    assert_eq!(
        (report.findings[0].cause, report.findings[0].state.len()),
        (Cause::SynRetransmit, 1)
    );
    weigh(&mut report, &reading(2));
    assert_eq!(report.findings[0].cause, Cause::AcceptQueueOverflow);
    let ids: Vec<_> = report.findings[0].state.iter().map(|it| it.id).collect();
    assert_eq!(ids, ["dropped", "queue_full"]);
    weigh(&mut report, &reading(2));
    assert_eq!(report.findings[0].state.len(), 2, "the same is not said twice");
}

#[test]
fn a_full_connection_tracking_table_explains_missing_answers() {
    let named = |cause: Cause, count: u64, drop: u64| {
        let netns = json!([{ "conntrack": { "count": count, "max": 64, "drop": drop,
                                            "insert_failed": 0 } }]);
        let mut report = report(cause, Vec::new());
        weigh(&mut report, &state(json!([]), netns));
        (report.findings[0].cause, report.findings[0].culprit.role)
    };
    for cause in [Cause::SynRetransmit, Cause::DnsTimeout] {
        assert_eq!(named(cause, 64, 9), (Cause::ConntrackFull, Role::Host));
        assert_eq!(named(cause, 62, 9), (Cause::ConntrackFull, Role::Host), "a second later");
        assert_eq!(named(cause, 61, 9), (cause, Role::Server), "it has room");
        assert_eq!(named(cause, 64, 0), (cause, Role::Server), "it dropped nothing");
    }
    assert_eq!(named(Cause::ServerThink, 64, 9), (Cause::ServerThink, Role::Server));
}

#[test]
fn used_up_ports_are_a_finding_without_packets() {
    let found = |used: u64| {
        let ports = json!({ "local": "10.0.0.1", "peer": "10.0.0.2:80", "available": 300,
                            "used": used });
        let mut report = Report::default();
        weigh(&mut report, &state(json!([]), json!([{ "local_ports": ports }])));
        report.findings
    };
    let findings = found(300);
    assert_eq!(findings[0].cause, Cause::PortExhaustion);
    assert_eq!(findings[0].culprit, Culprit { role: Role::Client, endpoint: end(0, 1) });
    let words =
        "300 of 300 local ports are in use towards 10.0.0.2:80, those in TIME-WAIT included";
    assert_eq!(sentence(&findings[0].state[0], Language::English), words);
    assert!(!found(295).is_empty() && found(292).is_empty());
}

#[test]
fn text_that_is_no_state_is_rejected() {
    assert!(State::parse(b"[]").is_err());
    assert!(State::parse(br#"{"findings": []}"#).is_err(), "a report is no list of sockets");
}

/// Returns the drops of a kind; `of` is the flow that the kernel tells, or no flow.
fn drops(subject: &str, harm: &str, of: Option<(&str, &str)>) -> Value {
    let flow =
        of.map(|(source, destination)| json!({ "source": source, "destination": destination }));
    json!({ "harm": harm, "subject": subject, "packets": 3, "socket": null,
            "flows": flow.into_iter().collect::<Vec<_>>(), "sentence": "3 packets dropped",
            "change": "" })
}

#[test]
fn drops_of_a_host_explain_what_arrived_there_and_was_not_answered() {
    let with = |facts: Vec<(&'static str, Fact)>, drops: Value| {
        let document = json!({ "sockets": [], "drops": [drops] });
        let state = State::parse(document.to_string().as_bytes()).expect("a state");
        let mut report = report(Cause::SynRetransmit, facts);
        weigh(&mut report, &state);
        report
            .findings
            .remove(0)
            .state
            .iter()
            .map(|it| sentence(it, Language::English))
            .collect::<Vec<_>>()
    };
    let arrived = || vec![("arrived", Fact::Count(3))];
    let to = |to: &str| drops("filter", "can_hurt", Some(("10.0.0.1:50000", to)));
    assert_eq!(with(arrived(), to("10.0.0.2:80")), ["while it was watched, 3 packets dropped"]);
    assert_eq!(with(Vec::new(), to("10.0.0.2:80")).len(), 0, "nothing shows that they arrived");
    assert_eq!(with(arrived(), to("10.0.0.2:81")).len(), 0, "packets of others");
    let counted = |subject: &str, harm: &str| with(arrived(), drops(subject, harm, None)).len();
    assert_eq!(counted("reverse_path", "hurts"), 1);
    assert_eq!(counted("interface", "hurts"), 0, "no SYN that was captured");
    assert_eq!(counted("checksum", "harmless"), 0);
}
