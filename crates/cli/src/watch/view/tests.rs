//! The view at three sizes, from a real capture, and its keys.

use super::*;
use crate::watch::lines::Saved;
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use std::net::SocketAddr;
use tcpwhy_core::capture::{Block, CaptureSet, Source};
use tcpwhy_core::model::{Cause, StateEvidence};
use tcpwhy_core::pipeline::{Options, Sliding};
use tcpwhy_core::report::{Glyphs, Paint};
use tcpwhy_core::state::{Part, Parts, Process};

const SIZES: [(u16, u16); 3] = [(40, 12), (80, 24), (200, 60)];

/// The report and the interval of a stored capture.
fn diagnosed(name: &str) -> (Report, Interval) {
    let path = format!("{}/../../testdata/captures/{name}.pcap", env!("CARGO_MANIFEST_DIR"));
    let bytes = std::fs::read(path).expect("a capture");
    let mut set = CaptureSet::new(vec![Source::memory("capture", bytes)]).expect("a capture");
    let (mut sliding, mut block) = (Sliding::new(Options::default(), 30), Block::default());
    while set.next_block(&mut block).expect("a capture that can be read") {
        sliding.take(&block);
    }
    sliding.cut();
    let report = sliding.report(set.inputs());
    let interval = sliding.last(&report.findings, set.inputs());
    (report, interval)
}

fn cost() -> Cost {
    let (own_cpu_share, open_connections) = (0.004, 3);
    Cost {
        covers: "window",
        captured_by: "programs",
        own_cpu_share,
        open_connections,
        ..Cost::default()
    }
}

fn end((report, interval): (Report, Interval)) -> Ended {
    let time = "12:34:56".into();
    Ended { report, cost: cost(), served: Vec::new(), interval, notes: Vec::new(), time }
}

fn view(look: Look) -> View {
    let second_ns = 1_000_000_000;
    let fixed = Fixed {
        interface: "eth0".into(),
        interval_ns: 2 * second_ns,
        window_ns: 60 * second_ns,
        kept: Some("kept".into()),
    };
    View::new(look, fixed)
}

/// The view of a capture with Nagle's algorithm, with the state of its server and a request that hooks
/// saw.
fn nagle() -> View {
    let mut view = view(Look::default());
    let mut ended = end(diagnosed("nginx_nodelay_off"));
    let finding = ended.report.findings.first_mut().expect("a finding");
    let (slowest, server) = (ended.report.slowest[0].clone(), ended.report.slowest[0].server);
    finding.state.push(StateEvidence {
        id: "served",
        agrees: true,
        setting: "TCP_NODELAY",
        value: "0".into(),
        place: server.to_string(),
        process: Some("nginx (pid 4242)".into()),
        read_ns: None,
        facts: Vec::new(),
    });
    let address = |end: tcpwhy_core::wire::Endpoint| SocketAddr::new(end.ip(), end.port);
    let mut parts = Parts::default();
    parts.add(Part::Disk, slowest.server_ns);
    ended.served.push(Served {
        local: address(server),
        peer: address(slowest.client),
        process: Process { pid: 4242, command: "nginx".into(), container: None, runtime: None },
        ready_ns: slowest.start_ns,
        parts,
        waits_for: None,
        is_handed_over: false,
    });
    view.take(ended);
    view
}

fn drawn(view: &View, (width, height): (u16, u16)) -> String {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).expect("a terminal");
    terminal.draw(|frame| view.draw(frame)).expect("drawn");
    let buffer = terminal.backend().buffer();
    let row = |y: u16| (0..width).map(|x| buffer[(x, y)].symbol()).collect::<String>();
    (0..height).map(row).map(|row| row.trim_end().to_owned() + "\n").collect()
}

fn press(view: &mut View, keys: &str) {
    for key in keys.chars() {
        let ends = view.press(match key {
            '\n' => KeyCode::Enter,
            '\t' => KeyCode::Tab,
            '\x1b' => KeyCode::Esc,
            '\x08' => KeyCode::Backspace,
            key => KeyCode::Char(key),
        });
        assert!(!ends, "{key:?} does not end it");
    }
}

fn has_all(text: &str, parts: &[&str]) {
    parts.iter().for_each(|part| assert!(text.contains(part), "{part}:\n{text}"));
}

#[test]
fn each_size_says_what_is_wrong_what_to_do_and_the_keys() {
    let view = nagle();
    for size in SIZES {
        let text = drawn(&view, size);
        has_all(&text, &["tcpwhy watch live:eth0", "FAULT", "do: ", "nagle_delayed_ack", "? keys"]);
        assert_eq!(text.lines().count(), usize::from(size.1));
    }
    let tall = drawn(&view, (80, 24));
    has_all(&tall, &["p99 of each 2 s", "▲ nagle_delayed_ack", "causes by cost, by urgency"]);
    let large = drawn(&view, (200, 60));
    has_all(
        &large,
        &["slowest exchanges, by duration", "endpoints, by time taken", "server time, by"],
    );
    has_all(&large, &["state, by finding", "nginx (pid 4242)", "waiting for the disk"]);
}

#[test]
fn a_healthy_service_is_said_to_be_well() {
    let mut view = view(Look::default());
    has_all(&drawn(&view, (40, 12)), &["capturing; the first report"]);
    view.take(end(diagnosed("nginx_nodelay_off-healthy")));
    for size in SIZES {
        let text = drawn(&view, size);
        assert!(text.contains("no fault") || text.contains("nothing is wrong"), "{text}");
        assert!(!text.contains("FAULT"), "{text}");
    }
}

#[test]
fn the_first_list_with_rows_is_shown_until_one_is_chosen() {
    let mut view = view(Look::default());
    let healthy = || {
        let (mut report, interval) = diagnosed("nginx_nodelay_off-healthy");
        report.findings.clear();
        end((report, interval))
    };
    view.take(healthy());
    assert_eq!(view.pane(), Pane::Exchanges);
    has_all(&drawn(&view, (40, 12)), &["nothing is wrong", "exchanges (2 of 6", "took"]);
    view.take(end(diagnosed("nginx_nodelay_off")));
    assert_eq!(view.pane(), Pane::Findings);
    view.press(KeyCode::Down);
    view.take(healthy());
    assert_eq!(view.pane(), Pane::Findings, "who moves in a list stays in it");
}

#[test]
fn any_size_is_drawn() {
    let mut view = nagle();
    for keys in ["", "\n", "\x1b?"] {
        press(&mut view, keys);
        for width in [0, 1, 2, 3, 5, 8, 13, 21, 34, 55, 300] {
            for height in [0, 1, 2, 3, 4, 5, 8, 12, 19, 20, 21, 30, 70] {
                drawn(&view, (width, height));
            }
        }
    }
}

#[test]
fn enter_shows_the_evidence_and_the_fix_of_the_selected_row_and_escape_closes_it() {
    let mut view = nagle();
    let before = drawn(&view, (200, 60));
    press(&mut view, "\n");
    let case = drawn(&view, (140, 200));
    has_all(
        &case,
        &["causes by cost, as of 12:34:56", "do  ", "What happens", "evidence", "ruled out"],
    );
    has_all(&case, &["slowest exchanges with it", "state", "fix", "Esc closes"]);
    let small = drawn(&view, (80, 24));
    view.press(KeyCode::PageDown);
    assert_ne!(drawn(&view, (80, 24)), small, "it scrolls");
    (0..90).for_each(|_| assert!(!view.press(KeyCode::PageDown)));
    assert!(
        drawn(&view, (80, 24)).lines().nth(22).is_some_and(|row| !row.is_empty()),
        "to its end"
    );
    press(&mut view, "\x1b");
    assert_eq!(drawn(&view, (200, 60)), before);
    press(&mut view, "2\n");
    has_all(&drawn(&view, (100, 40)), &["at server", "--exchange", "waiting for the disk", "kept"]);
    press(&mut view, "q3\n");
    has_all(&drawn(&view, (100, 60)), &["exchanges behind p99", "kinds of requests", "time of"]);
    for (list, part) in [("4", "its slowest exchanges"), ("5", "client sent"), ("6", "supports")] {
        press(&mut view, &format!("q{list}\n"));
        has_all(&drawn(&view, (100, 60)), &[part]);
    }
}

#[test]
fn what_is_read_stays_while_reports_come() {
    let mut view = nagle();
    press(&mut view, "\n");
    let case = drawn(&view, (80, 24));
    view.take(end(diagnosed("nginx_nodelay_off-healthy")));
    assert_eq!(drawn(&view, (80, 24)), case);
    press(&mut view, "\x1b");
    assert!(!drawn(&view, (80, 24)).contains("FAULT"));
}

#[test]
fn a_frozen_page_changes_again_when_it_goes_on() {
    let mut view = nagle();
    press(&mut view, " ");
    let frozen = drawn(&view, (80, 24));
    has_all(&frozen, &["FROZEN at 12:34:56"]);
    view.take(end(diagnosed("nginx_nodelay_off-healthy")));
    assert_eq!(drawn(&view, (80, 24)), frozen);
    press(&mut view, " ");
    let text = drawn(&view, (80, 24));
    assert!(!text.contains("FROZEN") && !text.contains("FAULT"), "{text}");
}

#[test]
fn a_filter_keeps_the_rows_with_its_text() {
    let mut view = nagle();
    let count = |view: &View| Pane::ALL.map(|pane| view.rows(pane).len());
    let all = count(&view);
    press(&mut view, "/NGINX (pid");
    assert!(count(&view)[0] > 0, "a process");
    has_all(&drawn(&view, (80, 24)), &["filter: NGINX (pid_", "Enter keeps it"]);
    press(&mut view, "q\x08\n");
    has_all(&drawn(&view, (80, 24)), &["filter: NGINX (pid (Esc drops it)"]);
    press(&mut view, "\x1b/no such text");
    assert_eq!(count(&view), [0; 6]);
    has_all(&drawn(&view, (80, 24)), &["no row has the filter's text"]);
    press(&mut view, "\x1b/nagle_delayed");
    assert_eq!(count(&view)[Pane::Findings as usize], 1, "a cause");
    press(&mut view, "\x1b");
    assert_eq!(count(&view), all);
}

#[test]
fn lists_change_order_and_percentiles_limit_the_exchanges() {
    let mut view = nagle();
    let first = |view: &View| view.rows(view.pane())[0].cells[0].clone();
    press(&mut view, "2");
    let longest = first(&view);
    let all = view.rows(Pane::Exchanges).len();
    assert!(all > 2);
    press(&mut view, "s");
    let rows = view.rows(Pane::Exchanges);
    assert!(rows.is_sorted_by(|one, next| one.cells[2] >= next.cells[2]), "the latest first");
    has_all(&drawn(&view, (80, 24)), &["slowest exchanges, by time"]);
    press(&mut view, "ss");
    assert_eq!(first(&view), longest);
    press(&mut view, "1ppp");
    assert_eq!((view.pane(), view.percentile), (Pane::Exchanges, Some(99)));
    let behind = view.rows(Pane::Exchanges);
    let least_ns = view.shot.as_ref().expect("a report").percentile_ns(99);
    let exchanges = &view.shot.as_ref().expect("a report").exchanges;
    assert!(!behind.is_empty() && behind.len() < all);
    assert!(behind.iter().all(|row| exchanges[row.item].wall_ns >= least_ns));
    has_all(&drawn(&view, (80, 24)), &["at or above p99"]);
    press(&mut view, "p");
    assert_eq!(view.rows(Pane::Exchanges).len(), all);
}

#[test]
fn the_selected_row_is_followed_when_the_list_changes() {
    let mut view = nagle();
    press(&mut view, "2");
    view.press(KeyCode::Down);
    view.press(KeyCode::Down);
    let id = view.choice().id.clone();
    assert_eq!((view.choice().row, view.rows(Pane::Exchanges)[2].id == id), (2, true));
    let (mut report, mut interval) = diagnosed("nginx_nodelay_off");
    let mut slower = report.slowest[0].clone();
    (slower.exchange, slower.wall_ns) = (900, slower.wall_ns + 1);
    report.slowest.insert(0, slower.clone());
    interval.slowest.insert(0, slower);
    view.take(end((report, interval)));
    assert_eq!((view.choice().row, view.rows(Pane::Exchanges)[3].id == id), (3, true));
    view.press(KeyCode::End);
    assert_eq!(view.choice().row, view.rows(Pane::Exchanges).len() - 1);
    view.press(KeyCode::Home);
    assert_eq!(view.choice().row, 0);
    press(&mut view, "\t");
    assert_eq!(view.pane(), Pane::Endpoints);
    view.press(KeyCode::BackTab);
    view.press(KeyCode::Left);
    view.press(KeyCode::Left);
    assert_eq!(view.pane(), Pane::State);
}

#[test]
fn only_q_in_the_lists_ends_it() {
    let mut view = nagle();
    press(&mut view, "?q/q\n");
    assert!(view.press(KeyCode::Char('q')));
}

#[test]
fn the_history_has_a_column_for_each_interval_and_marks_those_with_cases() {
    let mut view = view(Look::default());
    view.take(end(diagnosed("nginx_nodelay_off")));
    let mut none = diagnosed("nginx_nodelay_off");
    none.1 = Interval::default();
    view.take(end(none));
    view.take(end(diagnosed("nginx_nodelay_off")));
    let text = drawn(&view, (80, 24));
    let rows: Vec<&str> = text.lines().collect();
    let title = rows.iter().position(|row| row.starts_with("p99 of each")).expect("a title");
    assert!(rows[title].contains("in 6 s"), "{text}");
    let (bars, marks) = (rows[title + 2], rows[title + 3]);
    assert!(bars.ends_with("█·█"), "{text}");
    assert_eq!(marks.trim_start(), "▲ ▲", "{text}");
}

#[test]
fn notes_take_one_line() {
    let mut view = nagle();
    let mut ended = end(diagnosed("nginx_nodelay_off"));
    ended.notes = vec!["a hook was not attached ".repeat(20), "older".into()];
    view.take(ended);
    for size in SIZES {
        let text = drawn(&view, size);

        assert_eq!(text.lines().filter(|row| row.contains("a hook was")).count(), 1, "{text}");
    }
}

#[test]
fn what_a_terminal_interprets_is_not_drawn() {
    const HOSTILE: &str = "x\x1b[2J\u{9b}31m\u{202e}\r\ny";
    let mut view = view(Look { colour: true, ..Look::default() });
    let mut ended = end(diagnosed("nginx_nodelay_off"));
    ended.notes = vec![HOSTILE.into()];
    ended.report.endpoints[0].software = Some(HOSTILE.into());
    ended.report.endpoints[0].kinds[0].kind = HOSTILE.into();
    for one in ended.report.slowest.iter_mut().chain(&mut ended.interval.slowest) {
        one.kind = HOSTILE.into();
    }
    let at = ended.report.findings[0].culprit;
    ended.report.findings[0].state.push(StateEvidence {
        id: "served",
        agrees: false,
        setting: "TCP_NODELAY",
        value: HOSTILE.into(),
        place: HOSTILE.into(),
        process: Some(HOSTILE.into()),
        read_ns: None,
        facts: Vec::new(),
    });
    ended.cost.saved.push(Saved {
        cause: Cause::NagleDelayedAck.id(),
        role: at.role.id(),
        endpoint: at.endpoint.to_string(),
        file: HOSTILE.into(),
        page: HOSTILE.into(),
        first_frame: 1,
        last_frame: 2,
    });
    view.fixed.interface = HOSTILE.into();
    view.fixed.kept = Some(HOSTILE.into());
    view.take(ended);
    for keys in
        ["", "\n", "\x1b2\n", "\x1b3\n", "\x1b4\n", "\x1b5\n", "\x1b6\n", "\x1b/\x07\u{202e}"]
    {
        press(&mut view, keys);
        for size in SIZES {
            let text = drawn(&view, size);
            let is_bad = |char: char| {
                char != '\n'
                    && tcpwhy_core::model::units::printable(&char.to_string()) == "?"
                    && char != '?'
            };
            assert!(!text.contains(is_bad), "{keys:?}: {text:?}");
        }
    }
}

#[test]
fn a_terminal_without_unicode_gets_ascii() {
    let look = Look { glyphs: Glyphs::Ascii, ..Look::default() };
    let mut view = View { look, ..nagle() };
    for keys in ["", "?", "\x1b\n", "\x1b2\n", "\x1b3\n"] {
        press(&mut view, keys);
        for size in SIZES {
            let text = drawn(&view, size);
            assert!(text.is_ascii(), "{keys:?}: {text}");
        }
    }
}

#[test]
fn styles_are_those_of_reports_and_without_colours_there_are_none() {
    let colour = Look { colour: true, ..Look::default() };
    let page = colour.paint(Paint::Fault, "FAULT") + " plain";
    let lines = paint::lines(&colour, &page);
    assert_eq!(lines[0].spans[0].style, paint::style(&colour, Paint::Fault));
    assert_eq!((lines[0].spans.len(), lines[0].spans[1].content.as_ref()), (2, " plain"));
    let plain = Look::default();
    let paints = [Paint::Fault, Paint::Cost, Paint::Good, Paint::Code, Paint::Segment(0)];
    assert!(paints.into_iter().all(|it| paint::style(&plain, it).fg.is_none()));
}
