//! File descriptors: accept(2) and socket(2) fail without a free one (EMFILE, ENFILE).

use tcpwhy_core::model::Cause;
use tcpwhy_core::model::units::count;

use super::{Check, listen};
use crate::entry::{Change, Entry, Layer, Rank};
use crate::facts::{Facts, state};
use crate::read::program::Program;

pub const CHECKS: &[Check] = &[
    Check { id: "descriptors", layer: Layer::Application, judge: of_programs },
    Check { id: "file_max", layer: Layer::Application, judge: of_the_system },
];

const WHY: &str = "each socket is a descriptor; a program at its limit can accept no connection \
                   and open none (EMFILE), and its accept queues fill";

/// Programs at their limit that are named.
const NAMED_MAX: usize = 3;

/// Returns whether the program has no descriptor left. A program at its limit closes and opens
/// descriptors all the time, so some may be free, more of them if its accept queue is full.
fn is_at_limit(program: &Program, overflows: bool) -> bool {
    let (Some(open), Some((limit, _))) = (program.descriptors, program.descriptors_max) else {
        return false;
    };
    open + (limit / if overflows { 100 } else { 500 }).max(1) >= limit
}

/// Returns whether an accept queue of the program is full.
fn overflows(facts: &Facts, program: &Program) -> bool {
    let pid = program.process.pid;
    let mut listeners = facts.sockets.listeners.iter();
    listeners.any(|it| {
        let is_own = it.process.as_ref().is_some_and(|process| process.pid == pid);
        is_own && listen::overflows(facts, it)
    })
}

fn of_programs(check: &Check, facts: &Facts) -> Vec<Entry> {
    let mut entries = Vec::new();
    let known = facts
        .programs
        .iter()
        .filter_map(|program| Some((program, program.descriptors?, program.descriptors_max?)));
    let mut fullest: Option<(u64, &Program, u64, u64)> = None;
    for (program, open, (limit, hard)) in known {
        let part = open * 1_000 / limit.max(1);
        if fullest.is_none_or(|(most, ..)| part > most) {
            fullest = Some((part, program, open, limit));
        }
        if entries.len() < NAMED_MAX && is_at_limit(program, overflows(facts, program)) {
            entries.push(at_limit(check, facts, program, open, limit, hard));
        }
    }
    if let (true, Some((_, program, open, limit))) = (entries.is_empty(), fullest) {
        let value = format!(
            "the fullest is {} (pid {}): {} of {}",
            program.process.command,
            program.process.pid,
            count(open),
            count(limit)
        );
        entries.push(check.entry("file descriptors of programs with sockets", value, WHY));
    }
    entries
}

fn at_limit(
    check: &Check,
    facts: &Facts,
    program: &Program,
    open: u64,
    limit: u64,
    hard: u64,
) -> Entry {
    let (pid, name) = (program.process.pid, &program.process.command);
    let what = format!("file descriptors of {name} (pid {pid})");
    let value = format!("{} of {} are open", count(open), count(limit));
    let mut evidence = vec![state(value.clone())];
    let overflows = overflows(facts, program);
    if overflows {
        evidence.extend(facts.grew("TcpExt.ListenOverflows"));
    }
    let causes: &[Cause] = if overflows { &[Cause::AcceptQueueOverflow] } else { &[] };
    let more = limit * 4;
    let change = Change::command(
        format!(
            "raise the limit of the running process, and where it is started (LimitNOFILE= of its \
             systemd unit, or ulimit -n); find out whether it leaks: `ls -l /proc/{pid}/fd`"
        ),
        format!("prlimit --pid {pid} --nofile={more}:{}", hard.max(more)),
        "a leak takes longer to show; programs that use select(2) break above 1,024",
        format!("prlimit --pid {pid} --nofile={limit}:{hard}"),
    );
    check.entry(what, value, WHY).explains(causes, evidence).ranked(Rank::Limit).change(change)
}

fn of_the_system(check: &Check, facts: &Facts) -> Vec<Entry> {
    let [open, _, most] = facts.sysctls.numbers("fs.file-nr")[..] else { return Vec::new() };
    let value = format!("{} of {}", count(open), count(most));
    let why = "open files of all programs together; at the limit all fail (ENFILE)";
    let entry = check.entry("fs.file-max", value.clone(), why);
    if open + most / 100 < most {
        return vec![entry];
    }
    let risk = "kernel memory, about 1 KiB for each open file";
    let more = most.saturating_mul(2).to_string();
    let change = facts.sysctls.change("fs.file-max", &more, "allow more open files", risk);
    vec![entry.explains(&[], vec![state(value)]).ranked(Rank::Limit).change(change)]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::judge::tests::{grow, idle, loud, only};
    use crate::sockets::Listener;
    use tcpwhy_live::process::Process;

    fn facts(open: u64) -> Facts {
        let mut facts = idle();
        let process = Process { pid: 7, command: "app".into(), container: None, runtime: None };
        facts.programs.push(Program {
            process: process.clone(),
            descriptors: Some(open),
            descriptors_max: Some((1_024, 4_096)),
            ..Program::default()
        });
        facts.sockets.listeners.push(Listener {
            local: "10.0.0.2:80".parse().unwrap(),
            process: Some(process),
            backlog: 4,
            queue_max: 5,
            drops: 9,
            half_open: 0,
        });
        grow(&mut facts, "TcpExt.ListenOverflows", 9);
        facts
    }

    #[test]
    fn a_program_without_descriptors_comes_before_the_queue_that_it_fills() {
        let entries = loud(&facts(1_024));
        assert_eq!(entries[0].check, "descriptors");
        assert_eq!(entries[0].explains, [Cause::AcceptQueueOverflow]);
        let undo = &entries[0].change.as_ref().unwrap().undo;
        assert_eq!(undo, "prlimit --pid 7 --nofile=1024:4096");
        assert_eq!(entries[1].check, "accept_queue");
        assert_eq!(only(&facts(700)).check, "accept_queue", "it has some left");
        let mut without = facts(1_015);
        assert_eq!(loud(&without)[0].check, "descriptors", "a full queue, and hardly any left");
        without.sockets.listeners.clear();
        assert_eq!(loud(&without), [], "nine are left");
    }
}
