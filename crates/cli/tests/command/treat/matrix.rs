//! Each kind of treatment, with each end that it can have, in each weather: an independent reader
//! finds the state of before, or the change of others, and exit status and words say which.
//!
//! The ordinary test has each end and each weather of each kind; `TCPWHY_MATRIX=full` has each end in
//! each weather, and `TCPWHY_MATRIX_ONLY='cwnd / Guard'` those whose name has these words. A cell has a
//! network, mounts and files of its own.

use super::*;
use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

mod kinds;
mod world;

use kinds::{By, Happens, KINDS, Kind, Requires};
use world::{PATIENCE, State, World};

/// How a treatment ends.
#[derive(Debug, Clone, Copy, PartialEq)]
enum End {
    /// `--for`.
    Time,
    /// Ctrl-C.
    Int,
    Term,
    /// Two signals within a millisecond, to all of the process group, as `timeout` sends them.
    Two,
    /// A terminal that closes.
    TwoHangups,
    /// The parent and the reader of its output are gone.
    ParentGone,
    /// `kill -9`, and `tcpwhy treat undo`.
    KillAndUndo,
    Guard,
}

const ENDS: [End; 8] = [
    End::Time,
    End::Int,
    End::Term,
    End::Two,
    End::TwoHangups,
    End::ParentGone,
    End::KillAndUndo,
    End::Guard,
];

/// An event between the change and the end.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Weather {
    Fair,
    ObjectGone,
    ChangedByOthers,
    NamespaceReplaced,
    ProcessRestarted,
    DiskFull,
    JournalReadOnly,
    HelperMissing,
}

const WEATHERS: [Weather; 8] = [
    Weather::Fair,
    Weather::ObjectGone,
    Weather::ChangedByOthers,
    Weather::NamespaceReplaced,
    Weather::ProcessRestarted,
    Weather::DiskFull,
    Weather::JournalReadOnly,
    Weather::HelperMissing,
];

/// Time in which the guard sees that requests take much longer.
const GUARD_PATIENCE: Duration = Duration::from_secs(15);

type Cell = (&'static Kind, End, Weather);

/// Why a weather makes no sense for a kind.
fn senseless(kind: &Kind, weather: Weather) -> Option<&'static str> {
    let happens = match weather {
        Weather::ObjectGone => &kind.gone,
        Weather::ChangedByOthers => &kind.other,
        Weather::ProcessRestarted => &kind.restart,
        _ => return None,
    };
    match happens {
        Happens::As(..) => None,
        Happens::Not(why) => Some(why),
    }
}

/// The state that an undo has to leave, and its output.
struct Expected {
    state: State,
    status: i32,
    words: &'static str,
    /// Whether the record stays.
    is_recorded: bool,
}

/// Waits for an event.
fn until(what: &str, is_so: impl Fn() -> bool) {
    let began = Instant::now();
    while !is_so() {
        assert!(began.elapsed() < PATIENCE, "{what}");
        thread::sleep(Duration::from_millis(5));
    }
}

/// A treatment that runs.
struct Running {
    child: Child,
    /// Process of the treatment.
    pid: i32,
}

impl Running {
    fn begin(kind: &Kind, end: End, time: Duration) -> Self {
        let mut arguments = kind.in_netns();
        let time = format!("{}ms", time.as_millis());
        match end {
            End::Guard => arguments.extend(["--measure", "2s", "--guard", "p99:+100%"]),
            End::Time => arguments.extend(["--no-measure", "--for", &time]),
            _ => arguments.push("--no-measure"),
        }
        let treat = World::tcpwhy(&arguments);
        let mut command = treat;
        if end == End::ParentGone {
            let mut shell = Command::new("/bin/sh");
            shell.args(["-c", "\"$@\"; true", "sh"]).arg(command.get_program());
            shell.args(command.get_args());
            shell.envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
            command = shell;
        }
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
        let (child, _) = until_changed(command.spawn().expect("it runs"));
        let record = World::record().expect("a record");
        let pid = record["by"]["pid"].as_i64().expect("a number") as i32;
        Self { child, pid }
    }

    fn has_ended(&self) -> bool {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.pid)).unwrap_or_default();
        stat.rsplit_once(')').is_none_or(|(_, rest)| rest.trim_start().starts_with('Z'))
    }

    /// Sends signals to the process alone, or to its group.
    fn signal(&self, signals: &[i32], is_group: bool) {
        let target = if is_group { -self.pid } else { self.pid };
        for signal in signals {
            // SAFETY: kill takes plain integers.
            unsafe { libc::kill(target, *signal) };
        }
    }

    /// Ends the treatment, and returns its status and words; `None` where nobody can know them.
    fn end(mut self, end: End) -> Option<(i32, String)> {
        match end {
            End::Time | End::Guard => {}
            End::Int => self.signal(&[libc::SIGINT], false),
            End::Term => self.signal(&[libc::SIGTERM], false),
            End::Two => self.signal(&[libc::SIGTERM, libc::SIGINT], true),
            End::TwoHangups => self.signal(&[libc::SIGHUP, libc::SIGHUP], true),
            End::ParentGone => {
                drop((self.child.stdout.take(), self.child.stderr.take()));
                self.child.kill().expect("it runs");
                self.child.wait().expect("it ends");
                until("the treatment ends", || self.has_ended());
                return None;
            }
            End::KillAndUndo => return Some(undo(&[])),
        }
        until("the treatment ends", || self.has_ended());
        let out = self.child.wait_with_output().expect("it ends");
        Some(heard(&out))
    }
}

fn undo(more: &[&str]) -> (i32, String) {
    heard(&World::tcpwhy(&[&["undo", "--all"], more].concat()).output().expect("it runs"))
}

/// The status and all words in one line.
fn heard(out: &Output) -> (i32, String) {
    let all = [&out.stdout[..], b" ", &out.stderr[..]].concat();
    let words = String::from_utf8_lossy(&all).split_whitespace().collect::<Vec<_>>().join(" ");
    (out.status.code().unwrap_or(-1), words)
}

/// Lets the weather happen, and returns what is to be expected then.
fn happen(cell: Cell, world: &mut World, before: &State) -> Expected {
    let (kind, end, weather) = cell;
    let mut expected =
        Expected { state: before.clone(), status: 0, words: "restored", is_recorded: false };
    let mut touched: Vec<&str> = Vec::new();
    match weather {
        Weather::Fair => {}
        Weather::ObjectGone | Weather::ChangedByOthers | Weather::ProcessRestarted => {
            let happens = match weather {
                Weather::ObjectGone => &kind.gone,
                Weather::ChangedByOthers => &kind.other,
                _ => &kind.restart,
            };
            let Happens::As(happen, objects, by) = happens else { unreachable!("a cell of sense") };
            happen(world);
            touched.extend(*objects);
            expected.words = "undone";
            if *by == By::Others {
                (expected.status, expected.is_recorded) = (1, true);
                expected.words = "another program changed it from";
            }
        }
        Weather::NamespaceReplaced => {
            world.replace();
            (kind.look_alike)(world);
            let state = (kind.state)(world);
            touched.extend(state.keys().filter(|object| kind.is_of_netns(object)));
            // Its process holds the old one, in which the test has closed the sockets.
            let is_held = end != End::KillAndUndo && kind.changes != ["socket"];
            expected.words = if is_held { "restored" } else { "undone" };
        }
        Weather::DiskFull => World::fill_journal(),
        Weather::JournalReadOnly => {
            World::make_journal_read_only(true);
            (expected.status, expected.is_recorded) = (1, true);
            expected.words = "the journal does not show it";
        }
        Weather::HelperMissing => {
            World::hide_helpers(true);
            if let Some(object) = kind.needs_helper {
                touched.push(object);
                (expected.status, expected.is_recorded) = (1, true);
                expected.words = "nft cannot be run";
            }
        }
    }
    let now = (kind.state)(world);
    for object in touched {
        expected.state.insert(object, now[object].clone());
    }
    expected
}

/// Puts right what can be, and undoes what was left.
fn finish(cell: Cell, world: &World, before: &State) {
    let (kind, _, weather) = cell;
    match weather {
        Weather::JournalReadOnly => World::make_journal_read_only(false),
        Weather::HelperMissing => World::hide_helpers(false),
        _ => {}
    }
    if weather == Weather::ChangedByOthers {
        let left = (kind.state)(world);
        assert_eq!(undo(&["--forget"]).0, 1);
        assert_eq!((kind.state)(world), left, "what is forgotten stays");
    } else {
        let (status, words) = undo(&[]);
        assert_eq!(status, 0, "{words}");
        assert_eq!((kind.state)(world), *before, "{words}");
    }
    assert_eq!(World::record(), None);
}

/// Runs one cell; `false` if the treatment ended before its weather came, or the guard saw nothing.
fn run(cell: Cell, time: Duration) -> bool {
    let (kind, end, _) = cell;
    let mut world = World::new();
    if end == End::Guard {
        world.begin_traffic();
    }
    let before = (kind.state)(&world);
    let running = Running::begin(kind, end, time);
    assert_ne!((kind.state)(&world), before, "it changes something");
    if end == End::KillAndUndo {
        running.signal(&[libc::SIGKILL], false);
        until("it is killed", || running.has_ended());
    }
    let expected = catch_unwind(AssertUnwindSafe(|| happen(cell, &mut world, &before)));
    if end != End::KillAndUndo && running.has_ended() {
        // What it changed may have been restored before its weather came.
        return false;
    }
    let expected = expected.unwrap_or_else(|failed| resume_unwind(failed));
    if end == End::Guard {
        world.slow_down();
        let began = Instant::now();
        while !running.has_ended() && began.elapsed() < GUARD_PATIENCE {
            thread::sleep(Duration::from_millis(20));
        }
        if !running.has_ended() {
            // The machine was too busy for a difference to be seen.
            running.signal(&[libc::SIGTERM], false);
            until("the treatment ends", || running.has_ended());
            return false;
        }
    }
    let heard = running.end(end);
    assert_eq!((kind.state)(&world), expected.state, "{heard:?}");
    assert_eq!(World::record().is_some(), expected.is_recorded, "{heard:?}");
    if let Some((status, words)) = heard {
        let status_expected = if end == End::Guard { 1 } else { expected.status };
        assert_eq!(status, status_expected, "{words}");
        assert!(words.contains(expected.words), "`{}` in: {words}", expected.words);
    }
    if expected.is_recorded {
        finish(cell, &world, &before);
    }
    true
}

/// All cells that make sense, or so many that each end and each weather of each kind is among them.
fn cells(kinds: &[&'static Kind], is_full: bool) -> Vec<Cell> {
    let mut cells = Vec::new();
    for (index, kind) in kinds.iter().copied().enumerate() {
        let weathers: Vec<Weather> =
            WEATHERS.into_iter().filter(|weather| senseless(kind, *weather).is_none()).collect();
        if is_full {
            let with = |end| weathers.iter().map(move |&weather| (kind, end, weather));
            cells.extend(ENDS.into_iter().flat_map(with));
        } else {
            // There are as many ends as weathers at most.
            let at = |number: usize| weathers[(number + index) % weathers.len()];
            cells.extend(ENDS.into_iter().enumerate().map(|(number, end)| (kind, end, at(number))));
        }
    }
    cells
}

/// Returns why a kind cannot be tried on this machine.
fn lack(kind: &Kind) -> Option<String> {
    let available = || {
        let path = "/proc/sys/net/ipv4/tcp_available_congestion_control";
        fs::read_to_string(path).unwrap_or_default()
    };
    match kind.requires {
        Requires::Hooks if !tcpwhy_live::hooks::BUILT => Some("built without kernel hooks".into()),
        Requires::Program(program) if !tcpwhy_testing::installed(program) => {
            Some(format!("{program} is not installed"))
        }
        Requires::Bbr if !(available().contains("bbr") && available().contains("cubic")) => {
            Some("the kernel has no bbr, or no cubic".into())
        }
        _ => None,
    }
}

#[test]
fn what_a_treatment_changed_is_what_it_restores_whatever_happens() {
    if !tcpwhy_testing::privileged("network namespaces") {
        return;
    }
    let kinds = KINDS.iter().filter(|kind| match lack(kind) {
        None => true,
        Some(why) => {
            println!("{}: not tried: {why}", kind.name);
            false
        }
    });
    let kinds: Vec<&Kind> = kinds.collect();
    for kind in &kinds {
        for (weather, why) in WEATHERS.iter().filter_map(|it| Some((it, senseless(kind, *it)?))) {
            println!("{}: {weather:?} makes no sense: {why}", kind.name);
        }
    }
    let is_full = std::env::var("TCPWHY_MATRIX").is_ok_and(|it| it == "full");
    let only = std::env::var("TCPWHY_MATRIX_ONLY").unwrap_or_default();
    let name = |(kind, end, weather): Cell| format!("{} / {end:?} / {weather:?}", kind.name);
    let mut cells = cells(&kinds, is_full);
    cells.retain(|cell| name(*cell).contains(&only));
    let (next, failed) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                while let Some(&cell) = cells.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let mut time = Duration::from_secs(1);
                    let tried = loop {
                        // The mounts go with the thread.
                        match thread::spawn(move || run(cell, time)).join() {
                            Ok(false) if time < PATIENCE => time *= 3,
                            other => break other,
                        }
                    };
                    if !matches!(tried, Ok(true)) {
                        let said = tried.err().and_then(|said| said.downcast::<String>().ok());
                        let said = said.map_or_else(String::new, |said| *said);
                        failed.lock().expect("unpoisoned").push(format!("{}: {said}", name(cell)));
                    }
                }
            });
        }
    });
    let failed = failed.into_inner().expect("unpoisoned");
    println!("{} cells, {} failed", cells.len(), failed.len());
    assert!(failed.is_empty(), "{} of {}:\n{}", failed.len(), cells.len(), failed.join("\n"));
}

#[test]
fn no_kind_of_treatment_is_missing_in_the_matrix() {
    let help = Command::new(env!("CARGO_BIN_EXE_tcpwhy")).args(["treat", "--help"]).output();
    let help = String::from_utf8(help.expect("it runs").stdout).expect("text");
    let (_, commands) = help.split_once("Commands:\n").expect("a list of commands");
    let lines = commands.lines().take_while(|line| !line.trim().is_empty());
    let names = lines.filter(|line| line.starts_with("  ") && !line.starts_with("   "));
    let mut commands: BTreeSet<&str> =
        names.filter_map(|it| it.split_whitespace().next()).collect();
    for no_treatment in ["status", "undo", "help"] {
        commands.remove(no_treatment);
    }
    let tried: BTreeSet<&str> = KINDS.iter().map(|kind| kind.arguments[0]).collect();
    assert_eq!(tried, commands);
    let schema = include_str!("../../../../../docs/treat.schema.json");
    let schema: Value = serde_json::from_str(schema).expect("JSON");
    let changes = schema["$defs"]["change"]["oneOf"].as_array().expect("the kinds of change");
    let of_schema = |it: &Value| it["properties"]["kind"]["const"].as_str().map(str::to_owned);
    let changes: BTreeSet<String> = changes.iter().filter_map(of_schema).collect();
    let tried: BTreeSet<String> =
        KINDS.iter().flat_map(|kind| kind.changes).map(|it| (*it).to_owned()).collect();
    assert_eq!(tried, changes);
    // Each end and each weather of each kind is in the sample.
    let all: Vec<&Kind> = KINDS.iter().collect();
    let sample = cells(&all, false);
    for kind in KINDS {
        let mine = || sample.iter().filter(|(it, ..)| it.name == kind.name);
        assert!(ENDS.iter().all(|end| mine().any(|(_, it, _)| it == end)), "{}", kind.name);
        let has = |weather: &Weather| mine().any(|(.., it)| it == weather);
        let makes_sense = |weather: &&Weather| senseless(kind, **weather).is_none();
        assert!(WEATHERS.iter().filter(makes_sense).all(has), "{}", kind.name);
    }
}
