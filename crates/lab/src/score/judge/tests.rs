use serde_json::{Value, json};

use super::*;
use crate::labels::Latency;
use crate::score::{Bar, Score, read_answers, render, render_wrong};

fn truth(causes: Value) -> Truth {
    let labels = json!({
        "format": "tcpwhy-lab/1", "case": "some_case", "variant": "faulty", "seed": 1,
        "class": if causes == json!([]) { "none" } else { "fault" },
        "causes": causes, "exchanges": 10, "wall_ns": 1_000_000_000,
        "latency_after_fix_ns": {
            "p50_ns": 10_000_000, "p90_ns": 0, "p99_ns": 0, "max_ns": 0, "mean_ns": 0
        },
        "client_tcp_info": null, "server_tcp_info": null, "relay": null, "requests": [],
        "captures": [{ "file": "client.pcap", "vantage": "client" }],
    });
    serde_json::from_value(labels).expect("labels")
}

fn nagle() -> Value {
    json!([{
        "cause": "nagle_delayed_ack", "culprit_role": "server",
        "culprit_endpoint": "10.0.0.2:80", "lost_ns": 100_000_000, "also_right": [],
    }])
}

fn answer(findings: Value) -> Answer {
    let text = json!({ "capture": "x/client.pcap", "findings": findings }).to_string();
    let answers = read_answers(text.as_bytes(), |id| (id == "server_think").then_some(Class::Cost));
    let answers = answers.expect("an answer");
    answers.about("x/client.pcap".as_ref()).expect("about it").clone()
}

fn named(cause: &str, endpoint: &str, lost_ns: u64) -> Value {
    json!({ "cause": cause, "culprit": { "role": "server", "endpoint": endpoint },
            "lost_ns": lost_ns })
}

fn judged(causes: Value, findings: Value) -> Judged {
    judge(&truth(causes), "x/client.pcap", "client", Some(&answer(findings)))
}

#[test]
fn a_right_answer_is_right_in_all() {
    let one = judged(nagle(), json!([named("nagle_delayed_ack", "10.0.0.2:80", 95_000_000)]));
    assert!(one.causes[0].found && one.causes[0].culprit_right == Some(true));
    let error = one.causes[0].lost_error().expect("an error");
    assert!((error + 0.05).abs() < 1e-9, "{error}");
    assert!(one.false_findings.is_empty() && render_wrong(&[one]).is_empty());
}

#[test]
fn a_cost_beside_the_fault_is_not_judged() {
    let findings = json!([
        named("server_think", "10.0.0.2:80", 900_000_000),
        named("nagle_delayed_ack", "10.0.0.2:80", 100_000_000),
    ]);
    assert!(judged(nagle(), findings).false_findings.is_empty());
}

#[test]
fn a_fault_that_is_not_there_is_false() {
    let findings = json!([named("send_buffer", "10.0.0.2:80", 1)]);
    for causes in [nagle(), json!([])] {
        assert_eq!(judged(causes, findings.clone()).false_findings, ["send_buffer"]);
    }
}

#[test]
fn the_right_cause_at_another_place_is_the_wrong_culprit() {
    let one = judged(nagle(), json!([named("nagle_delayed_ack", "10.0.0.9:80", 1)]));
    assert!(one.causes[0].found && one.causes[0].culprit_right == Some(false));
    assert!(one.false_findings.is_empty(), "once is enough");
    let both = json!([
        named("nagle_delayed_ack", "10.0.0.2:80", 1),
        named("nagle_delayed_ack", "10.0.0.9:80", 1),
    ]);
    let one = judged(nagle(), both);
    assert_eq!(one.causes[0].culprit_right, Some(true));
    assert_eq!(one.false_findings, ["nagle_delayed_ack"], "the second culprit is none");
}

#[test]
fn what_does_not_pass_the_vantage_is_not_asked_for() {
    let mut causes = nagle();
    causes[0]["from_capture"] = json!({ "unseen_at": ["client"], "verdicts": [] });
    let score = Score::of(&[judged(causes, json!([]))]);
    let both = score.totals.last().expect("totals");
    assert_eq!((both.labelled, both.hidden, both.recall()), (0, 1, None));
    assert!(score.holds());
}

#[test]
fn what_looks_the_same_may_be_named_instead() {
    let mut causes = nagle();
    let verdict = json!({ "cause": "server_think", "culprit_role": "server" });
    causes[0]["from_capture"] = json!({ "unseen_at": [], "verdicts": [verdict] });
    let one = judged(causes, json!([named("server_think", "10.0.0.7:80", 100_000_000)]));
    assert_eq!(one.causes[0].culprit_right, Some(true));
    assert_eq!(one.causes[0].lost_error(), Some(0.0));
}

#[test]
fn a_run_whose_link_was_late_does_not_count() {
    let mut truth = truth(nagle());
    let late = json!({ "timekeeping": {
        "packets": 9, "late_p50_ns": 0, "late_p99_ns": 400_000, "late_max_ns": 400_000,
        "realtime": true,
    }});
    truth.relay = serde_json::from_value(late).expect("a relay");
    let judged = [judge(&truth, "x/client.pcap", "client", Some(&answer(json!([]))))];
    let score = Score::of(&judged);
    assert_eq!((score.captures, score.late, score.holds()), (0, 1, true));
    assert!(render_wrong(&judged).is_empty());
}

#[test]
fn a_run_whose_host_was_late_does_not_count() {
    let of = |late_max_ns: u64| {
        let mut truth = truth(nagle());
        let host = json!({
            "events": 5_000, "late_p50_ns": 50_000, "late_p99_ns": 110_000,
            "late_max_ns": late_max_ns, "realtime": true,
        });
        truth.host_timekeeping = serde_json::from_value(host).expect("a measurement");
        truth.is_late()
    };
    assert!(of(30_000_000) && !of(3_000_000));
}

#[test]
fn bars_fall_with_a_miss_and_a_false_alarm() {
    let missed = judged(nagle(), json!([]));
    let alarm = judged(json!([]), json!([named("send_buffer", "10.0.0.2:80", 1)]));
    let score = Score::of(&[missed, alarm]);
    let fallen: Vec<_> = score.bars.iter().filter(|bar| !bar.holds).map(|bar| bar.name).collect();
    assert_eq!(fallen, ["recall", "precision", "healthy without a fault"]);
    let text = render(&score);
    assert!(text.contains("FAIL recall") && text.contains("nagle_delayed_ack"), "{text}");
    assert!(score.bars.iter().all(|bar: &Bar| bar.limit.contains('%')));
}

/// Returns whether a predicted median is right, where 10 ms are measured after the fix.
fn is_right(counterfactual: serde_json::Value) -> Option<bool> {
    let mut finding = named("nagle_delayed_ack", "10.0.0.2:80", 100_000_000);
    finding["counterfactual"] = counterfactual;
    judged(nagle(), json!([finding])).counterfactual.map(|it| it.is_right())
}

#[test]
fn a_predicted_interval_has_to_contain_what_the_run_with_the_fix_measures() {
    let interval = |least_ns: u64, most_ns: u64| {
        let (least, most) = (json!({ "p50_ns": least_ns }), json!({ "p50_ns": most_ns }));
        let likely_ns = least_ns.midpoint(most_ns);
        is_right(json!({ "p50_ns": likely_ns, "least": least, "most": most }))
    };
    assert_eq!(interval(9_000_000, 11_500_000), Some(true));
    assert_eq!(interval(10_000_001, 13_000_000), Some(false));
    assert_eq!(interval(7_500_000, 9_999_999), Some(false));
}

/// What the fix does not change is stated without an interval. The other run differs all the same.
#[test]
fn a_median_that_the_fix_does_not_change_may_differ_by_the_noise_of_two_runs() {
    let exactly = |ns: u64| {
        let end = json!({ "p50_ns": ns });
        is_right(json!({ "p50_ns": ns, "least": end, "most": end }))
    };
    assert_eq!(exactly(11_400_000), Some(true));
    assert_eq!(exactly(11_500_000), Some(false));
    assert_eq!(exactly(8_800_000), Some(false));
}

#[test]
fn a_predicted_interval_that_is_too_wide_says_nothing() {
    let interval = |least_ns: u64, most_ns: u64| {
        let (predicted_p50_ns, least_p50_ns, most_p50_ns) = (least_ns, least_ns, most_ns);
        let measured_p50_ns = least_ns;
        Counterfactual { predicted_p50_ns, least_p50_ns, most_p50_ns, measured_p50_ns }
    };
    assert!(interval(8_500_000, 11_500_000).is_right(), "30 % of its middle");
    assert!(!interval(8_000_000, 11_500_000).is_right());
    assert!(interval(100_000, 1_100_000).is_right(), "a millisecond");
    assert!(!interval(100_000, 1_200_000).is_right());
}

#[test]
fn a_prediction_without_ends_is_the_middle_of_an_interval() {
    for (predicted_ns, right) in [(11_400_000, true), (11_900_000, false), (8_800_000, true)] {
        assert_eq!(is_right(json!({ "p50_ns": predicted_ns })), Some(right), "{predicted_ns}");
    }
}

#[test]
fn a_prediction_is_held_against_times_on_the_wire_where_these_can_tell() {
    let mut finding = named("nagle_delayed_ack", "10.0.0.2:80", 95_000_000);
    finding["counterfactual"] = json!({ "p50_ns": 8_000_000 });
    let said = answer(json!([finding]));
    let held_against = |truth: &Truth| {
        let one = judge(truth, "x/client.pcap", "client", Some(&said));
        one.counterfactual.map(|it| it.measured_p50_ns)
    };
    let mut truth = truth(nagle());
    assert_eq!(
        held_against(&truth),
        Some(10_000_000),
        "the client's clock, where there is no other"
    );
    truth.on_wire_after_fix_ns =
        Some(Latency { p50_ns: 8_100_000, ..truth.latency_after_fix_ns.unwrap_or_default() });
    assert_eq!(held_against(&truth), Some(8_100_000));
    let asked = TrueRequest { client_endpoint: "10.0.0.1:4000".to_owned(), error: None };
    truth.requests = vec![asked.clone()];
    assert_eq!(held_against(&truth), Some(8_100_000));
    truth.requests.push(TrueRequest { client_endpoint: String::new(), ..asked });
    assert_eq!(held_against(&truth), None, "a run of ping is no exchange of a report");
    truth.requests.pop();
    truth.causes[0].from_capture.unseen_at.push("client".to_owned());
    assert_eq!(held_against(&truth), None, "it does not show here");
}

#[test]
fn the_kernel_s_account_of_a_window_is_looked_for() {
    let mut causes = nagle();
    causes[0]["cause"] = json!("receive_window");
    let mut truth = truth(causes);
    truth.client_tcp_info =
        Some(TcpInfo { connections: 1, tcpi_rwnd_limited_us: 500_000, ..TcpInfo::default() });
    for (owned_ns, consistent) in [(450_000_000_u64, true), (100_000_000, false)] {
        let text = json!({
            "inputs": [{ "path": "here/x/client.pcap" }], "findings": [],
            "totals": { "wall_ns": 1_000_000_000 },
            "ledger": { "receive_window": owned_ns / 2, "zero_window": owned_ns / 2 },
        });
        let answers = read_answers(text.to_string().as_bytes(), |_| None).expect("an answer");
        let said = answers.about("x/client.pcap".as_ref());
        let kernel = judge(&truth, "x/client.pcap", "client", said).kernel.expect("it matters");
        assert_eq!(kernel.is_consistent(), consistent);
    }
}

#[test]
fn invalid_answers_are_reported_by_number() {
    let good = json!({ "capture": "a", "findings": [] }).to_string();
    for (bad, words) in [("{}", "answer 2 cannot be read"), ("{\"findings\": []}", "answer 2 does")]
    {
        let error = read_answers(format!("{good}\n{bad}").as_bytes(), |_| None);
        let words_found = error.expect_err("it is bad").to_string();
        assert!(words_found.contains(words), "{words_found}");
    }
}

/// Returns a finding with this confidence.
fn sure(cause: &str, confidence: f64) -> Value {
    json!({ "cause": cause, "culprit": { "role": "server", "endpoint": "10.0.0.2:80" },
            "lost_ns": 1, "confidence": confidence })
}

#[test]
fn findings_are_counted_by_the_confidence_that_they_state() {
    let said: [&[(&str, f64)]; 4] = [
        &[("nagle_delayed_ack", 0.9), ("send_buffer", 0.89)],
        &[("nagle_delayed_ack", 1.0)],
        &[("nagle_delayed_ack", 0.7)],
        &[("nagle_delayed_ack", 0.2), ("reset", 0.95), ("server_think", 0.95)],
    ];
    let judged = said.map(|findings| {
        judged(nagle(), findings.iter().map(|&(cause, sureness)| sure(cause, sureness)).collect())
    });
    let score = Score::of(&judged);
    let counts: Vec<_> = score.calibration.iter().map(|bin| (bin.findings, bin.right)).collect();
    assert_eq!(counts, [(3, 2), (2, 1), (1, 1)], "the cost beside the fault is not judged");
    let bars: Vec<&Bar> =
        score.bars.iter().filter(|bar| bar.name.starts_with("confidence")).collect();
    assert_eq!(bars.len(), 2, "nothing is promised below 0.7");
    assert!(bars.iter().all(|bar| !bar.holds && bar.required));
    let text = render(&score);
    assert!(text.contains("0.90 or more                   3       66.7"), "{text}");
    let json = serde_json::to_value(&score).expect("JSON");
    assert_eq!(json["calibration"][1]["right_share"], 0.5);
}

#[test]
fn a_tool_that_states_no_confidence_is_not_measured_by_it() {
    let one = judged(nagle(), json!([named("nagle_delayed_ack", "10.0.0.2:80", 1)]));
    let score = Score::of(&[one]);
    assert!(score.calibration.iter().all(|bin| bin.findings == 0 && bin.right_share().is_none()));
    assert!(
        score.bars.iter().filter(|bar| bar.name.starts_with("confidence")).all(|bar| bar.holds)
    );
    assert!(!render(&score).contains("stated confidence"));
}

#[test]
fn what_the_packets_only_allow_is_neither_right_nor_false() {
    let mut truth = truth(json!([]));
    truth.not_judged = vec!["refused".to_owned()];
    let said = answer(json!([sure("refused", 0.9), sure("reset", 0.9)]));
    let one = judge(&truth, "x/client.pcap", "client", Some(&said));
    assert_eq!((one.false_findings.len(), one.stated.len()), (1, 1));
    assert_eq!(one.false_findings, ["reset"]);
}

#[test]
fn a_list_of_stored_captures_is_truth_too() {
    let dir = tcpwhy_testing::Folder::new();
    let stored = json!([{
        "name": "one", "file": "one.pcap", "vantage": "server", "class": "fault",
        "causes": nagle(), "packets": 3, "not_judged": ["reset"],
    }]);
    std::fs::write(dir.join("truth.json"), stored.to_string()).expect("written");
    let found = crate::score::find_truth(&dir);
    let (place, truth) = found.expect("truth").pop().expect("one");
    assert_eq!((&*place, truth.case.as_str()), (&*dir, "one"));
    assert_eq!(truth.captures[0].file, "captures/one.pcap");
    assert_eq!(truth.not_judged, ["reset"]);
}
