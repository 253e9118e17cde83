//! Snapshots of the output: text at several widths, and JSON with its schema.

mod fixes;
mod fixtures;
mod headline;
mod joined;
mod judgement;
mod next_step;

use tcpwhy_core::capture::LinkType;
use tcpwhy_core::findings::{observations, words};
use tcpwhy_core::model::{Cause, Language, Report, template};
use tcpwhy_core::report::{
    Glyphs, Ladder, LadderStep, Look, Phrases, Step, json, render_manual, text,
};
use tcpwhy_core::wire::DecodeError;

fn look(width: usize) -> Look {
    Look { width, ..Look::default() }
}

fn all() -> [(&'static str, Report); 6] {
    [
        ("nagle", fixtures::nagle()),
        ("healthy", fixtures::healthy()),
        ("mixture", fixtures::mixture()),
        ("troubled", fixtures::troubled()),
        ("empty", fixtures::empty()),
        ("joined", joined::joined()),
    ]
}

#[test]
fn text_at_eighty_columns() {
    for (name, report) in all() {
        insta::assert_snapshot!(format!("text_{name}"), text::render(&report, &look(80)));
    }
}

#[test]
fn text_on_a_wide_and_a_narrow_terminal() {
    let report = fixtures::nagle();
    insta::assert_snapshot!("text_nagle_120", text::render(&report, &look(120)));
    insta::assert_snapshot!("text_nagle_60", text::render(&report, &look(60)));
}

#[test]
fn colour_only_adds_escape_sequences_and_drops_backquotes() {
    for (_, report) in all() {
        let coloured = text::render(&report, &Look { colour: true, ..look(80) });
        let plain = text::render(&report, &look(80));
        let mut stripped = String::new();
        for (index, piece) in coloured.split('\u{1b}').enumerate() {
            let end = if index == 0 { 0 } else { piece.find('m').map_or(0, |at| at + 1) };
            stripped.push_str(&piece[end..]);
        }
        let squeeze = |text: &str| text.replace('`', "").split_whitespace().collect::<String>();
        assert_eq!(squeeze(&stripped), squeeze(&plain));
    }
}

#[test]
fn ascii_is_ascii() {
    for (name, report) in all() {
        let ascii = Look { glyphs: Glyphs::Ascii, ..look(80) };
        let text = text::render(&report, &ascii);
        assert!(text.is_ascii(), "{name}: {text}");
        assert!(fixtures::ladder().render(&ascii).is_ascii());
    }
}

#[test]
fn no_line_is_longer_than_the_terminal() {
    for width in [60, 72, 80, 100, 120, 200] {
        for (name, report) in all() {
            for line in text::render(&report, &look(width)).lines() {
                assert!(line.chars().count() <= width, "{name} at {width}: {line}");
            }
        }
    }
}

#[test]
fn nothing_from_a_capture_reaches_the_terminal_as_a_command() {
    let text = text::render(&fixtures::troubled(), &look(80));
    assert!(!text.contains('\u{1b}') && !text.contains('\u{7}'), "{text}");
}

#[test]
fn the_ladder_marks_names_and_owns_its_gaps() {
    insta::assert_snapshot!("ladder_80", fixtures::ladder().render(&look(80)));
}

/// The diagnosis alone, which other commands print, has the same lines as the whole report.
#[test]
fn the_diagnosis_alone_says_what_the_report_says() {
    for (name, report) in all() {
        let whole = text::render(&report, &look(80));
        let mut rest = whole.lines();
        for line in text::diagnosis(&report, &look(80), 5).lines() {
            assert!(rest.any(|it| it == line), "{name}: {line}");
        }
    }
}

#[test]
fn evidence_makes_a_ladder_where_there_is_no_connection() {
    let report = fixtures::nagle();
    let finding = report.findings.first().expect("a finding");
    let ladder = Ladder::of_lookup(finding).expect("a ladder");
    let segments = ladder.steps.iter().filter(|it| matches!(it.step, Step::Segment { .. }));
    assert_eq!(segments.count(), finding.evidence.len());
    let caused = |it: &&LadderStep| matches!(it.step, Step::Gap { cause: Some(_), .. });
    assert_eq!(ladder.steps.iter().filter(caused).count(), 1, "the longest silence has the cause");
}

#[test]
fn json_is_the_contract() {
    let schema = include_str!("../../../../docs/report.schema.json");
    let schema = serde_json::from_str(schema).expect("the schema is JSON");
    let validator = jsonschema::validator_for(&schema).expect("the schema is a schema");
    for (name, report) in all() {
        let text = json::render(&report, "0.1.0").expect(name);
        let value: serde_json::Value = serde_json::from_str(&text).expect(name);
        let errors: Vec<_> =
            validator.iter_errors(&value).map(|e| format!("{e} at {}", e.instance_path)).collect();
        assert!(errors.is_empty(), "{name}: {errors:#?}");
        let owners = value["ledger"].as_object().expect("a ledger").values();
        let sum: u64 = owners.filter_map(serde_json::Value::as_u64).sum();
        assert_eq!(Some(sum), value["totals"]["wall_ns"].as_u64(), "{name}");
    }
    let text = json::render(&fixtures::nagle(), "0.1.0").expect("JSON");
    insta::assert_snapshot!("json_nagle", text);
}

#[test]
fn where_frames_were_left_out_it_is_not_said_that_there_is_no_connection() {
    let none = "there is no TCP connection";
    let said = |report: &Report| text::render(report, &look(200));
    assert!(said(&fixtures::empty()).contains(none));
    let mut report = fixtures::empty();
    report.inputs[0].link_types = (100..105).chain([105, 127]).map(LinkType).collect();
    report.totals.decode_errors.add_errors(DecodeError::LinkTypeUnsupported, 1);
    let some = said(&report);
    let named = "1 frame could not be read (linktype_100, linktype_102, linktype_103 and 2 more)";
    assert!(some.contains(named) && some.contains("none of the other 2 belongs"), "{some}");
    report.totals.decode_errors.add_errors(DecodeError::TcpTruncated, 2);
    let all = said(&report);
    assert!(all.contains("3 frames could not be read"), "{all}");
    assert!(!some.contains(none) && !all.contains(none), "{some}{all}");
}

/// A finding with no facts at all must still read as sentences.
#[test]
fn every_cause_can_be_said_without_facts() {
    let mut finding = fixtures::mixture().findings.remove(2);
    finding.facts.clear();
    for &cause in Cause::ALL {
        finding.cause = cause;
        for lost_ns in [0, 1_000_000] {
            finding.lost_ns = lost_ns;
            let phrases = Phrases::of(&finding, Language::English);
            let id = cause.id();
            let said = format!("{phrases:?}");
            assert!(!phrases.what.is_empty() && !phrases.headline.is_empty(), "{id}: {said}");
            for text in [&phrases.what, &phrases.headline] {
                assert!(!text.contains(['{', '}', '[', ']', '|']), "{id}: {text}");
                assert!(!text.contains("  ") && !text.contains(" ,"), "{id}: {text}");
            }
            assert!(!phrases.fixes.is_empty(), "{id}: no fix for a server of unknown software");
        }
    }
    for words in observations(Language::English) {
        let first = template::fill(words.message[0], &|_| None);
        assert!(first.is_some_and(|text| !text.is_empty()), "{}", words.id);
    }
}

/// The facts each cause's words ask for: what the analysis may fill in.
#[test]
fn facts_by_cause() {
    let mut table = String::new();
    for &cause in Cause::ALL {
        let words = words(cause, Language::English);
        let sentences = words.headline.iter().chain(&words.message).copied();
        let why = words.ruled_out.iter().map(|(_, _, why)| *why);
        let fixes = words.fixes.iter().flat_map(|fix| [fix.place, fix.change, fix.effect]);
        let templates = sentences.chain(why).chain(fixes);
        let mut facts: Vec<&str> = templates.flat_map(template::facts_of).collect();
        let given = ["culprit", "role", "share", "peer", "sender", "receiver", "message"];
        facts.retain(|fact| !given.contains(fact));
        facts.sort_unstable();
        facts.dedup();
        let parts: Vec<&str> = words.evidence.iter().map(|(part, _)| *part).collect();
        let why: Vec<String> =
            words.ruled_out.iter().map(|(of, id, _)| format!("{of}.{id}")).collect();
        table += &format!(
            "{}\n  facts     {}\n  evidence  {}\n  ruled out {}\n",
            cause.id(),
            facts.join(" "),
            parts.join(" "),
            why.join(" ")
        );
    }
    insta::assert_snapshot!("facts_by_cause", table);
}

#[test]
fn manuals_read_well() {
    insta::assert_snapshot!("manual", render_manual(Cause::NagleDelayedAck, &look(80)));
    for &cause in Cause::ALL {
        let text = render_manual(cause, &look(80));
        let prose: String = text.split('`').step_by(2).collect();
        // An ellipsis outside of commands is a template that was not filled in.
        assert!(!prose.contains(['{', '[', '|', '…']), "{}: {prose}", cause.id());
    }
}
