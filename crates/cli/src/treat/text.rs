//! Text output of treatments: what changed, its effect, and how to undo it.

use super::args::Course;
use super::course::{Active, End};
use std::collections::BTreeMap;
use std::time::Duration;
use tcpwhy_core::compare::{Comparison, Measured};
use tcpwhy_core::model::units::{count, counted, duration, printable};
use tcpwhy_core::report::{Look, Page, Paint, comparison};
use tcpwhy_treat::record::{Lifetime, SocketChange};
use tcpwhy_treat::{
    Change, Counts, HostPlan, Newcomers, Record, Records, TreatmentRequest, Undone, Value, What,
};

/// Number of groups of sockets that are listed.
const GROUPS_MAX: usize = 8;
/// Number of sockets that a plan lists.
const SOCKETS_MAX: usize = 10;

/// Says that the measurement has begun.
pub fn measuring(measure: Duration, look: &Look) -> String {
    let mut page = Page::new(look);
    page.labelled("measuring", &format!("{} before the change", duration(nanos(measure))));
    page.finish()
}

/// Renders the measurement before the change.
pub fn before(measured: Option<&Measured>, look: &Look) -> String {
    let mut page = Page::new(look);
    page.labelled("before", &run(measured));
    page.finish()
}

fn run(measured: Option<&Measured>) -> String {
    match measured.filter(|run| run.exchanges > 0) {
        Some(run) => format!(
            "{} · p50 {} · p99 {}",
            counted(run.exchanges, "request", "requests"),
            duration(run.latency.p50_ns),
            duration(run.latency.p99_ns),
        ),
        None => "no request was seen: nothing to compare with, and no guard".into(),
    }
}

/// Renders what was changed, and how to undo it.
pub fn changed(active: &Active, took: Duration, course: &Course, look: &Look) -> String {
    let mut page = Page::new(look);
    let record = active.record();
    match active {
        Active::Sockets(treatment) => {
            let counts = treatment.counts();
            let of = &record.what;
            let sockets = counted(counts.changed, "socket", "sockets");
            let option = option(of);
            page.labelled(
                "changed",
                &format!("{option} of {sockets} in {}", duration(nanos(took))),
            );
            groups(&mut page, &socket_changes(&record.changes));
            rest(&mut page, counts);
            page.labelled("new ones", &newcomers(treatment.newcomers(), of));
        }
        Active::Host(_, risks) => host_changes(&mut page, "changed", &record.changes, risks),
    }
    let until = match (course.keep, course.duration) {
        (true, _) => "it stays".to_owned(),
        (_, Some(ns)) => format!("after {}, or at Ctrl-C", duration(ns)),
        _ => "at Ctrl-C".to_owned(),
    };
    let id = record.id;
    page.labelled("undo", &format!("{until}; from elsewhere: sudo tcpwhy treat undo {id}"));
    page.finish()
}

fn option(what: &What) -> &'static str {
    match what {
        What::Sockets { setting, .. } => setting.option(),
        _ => "a setting of the host",
    }
}

fn newcomers(newcomers: &Newcomers, what: &What) -> String {
    let quickack = matches!(what, What::Sockets { setting: tcpwhy_treat::Setting::Quickack, .. });
    match newcomers {
        Newcomers::Hook => "the kernel sets it on each connection as it is established".into(),
        Newcomers::Listing(why) => {
            let again = if quickack {
                "; it is set on all of them again every 5 ms or more, with more sockets less often"
            } else {
                ""
            };
            format!("are found by listing the sockets every 100 ms{again} ({})", printable(why))
        }
    }
}

fn rest(page: &mut Page<'_>, counts: &Counts) {
    let mut parts = Vec::new();
    let mut add = |number: u64, words: &str| {
        if number > 0 {
            parts.push(format!("{} {words}", count(number)));
        }
    };
    add(counts.had_it, "had it already");
    add(counts.unreached, "wait to be accepted");
    add(counts.denied, "cannot be set: it needs CAP_SYS_PTRACE over their processes");
    add(counts.refused, "refused by the kernel");
    add(counts.changed_meanwhile, "changed by the application meanwhile: left alone");
    if !parts.is_empty() {
        page.labelled("others", &parts.join(" · "));
    }
}

fn socket_changes(changes: &[Change]) -> Vec<SocketChange> {
    let sockets = changes.iter().filter_map(|change| match change {
        Change::Socket(socket) => Some(socket.clone()),
        _ => None,
    });
    sockets.collect()
}

/// Lists how many sockets of each process changed from which value to which.
fn groups(page: &mut Page<'_>, changes: &[SocketChange]) {
    let mut groups: BTreeMap<(String, String), u64> = BTreeMap::new();
    for change in changes {
        let holder = match (&change.command, change.pid) {
            (Some(command), Some(pid)) => format!("{} (pid {pid})", printable(command)),
            _ => "opened meanwhile".to_owned(),
        };
        let key = (holder, from_to(&change.before, &change.set));
        *groups.entry(key).or_default() += 1;
    }
    let omitted = groups.len().saturating_sub(GROUPS_MAX);
    let mut sorted: Vec<_> = groups.into_iter().collect();
    sorted.sort_by_key(|(_, number)| std::cmp::Reverse(*number));
    for ((holder, from_to), number) in sorted.into_iter().take(GROUPS_MAX) {
        let sockets = counted(number, "socket", "sockets");
        page.item(&format!("{holder}: {sockets} {from_to}"));
    }
    if omitted > 0 {
        page.item(&format!("{} more", counted(omitted as u64, "group", "groups")));
    }
}

/// Formats "from off to on"; for buffers, the sides that change.
fn from_to(before: &Value, set: &Value) -> String {
    let (Value::Buffers(one), Value::Buffers(other)) = (before, set) else {
        return format!("from {} to {}", before.words(), set.words());
    };
    let sides = [
        ("send", one.send_words(), other.send_words()),
        ("receive", one.receive_words(), other.receive_words()),
    ];
    let changed = sides.into_iter().filter(|(_, before, set)| before != set);
    let parts: Vec<_> = changed
        .map(|(side, before, set)| format!("{side} buffer from {before} to {set}"))
        .collect();
    parts.join(", ")
}

/// Renders the effect of the change.
pub fn verdict(compared: Option<&Comparison>, limits: &[String], look: &Look) -> String {
    let mut page = Page::new(look);
    limits.iter().for_each(|limit| page.warning(limit));
    let Some(compared) = compared else {
        page.warning(
            "no request was seen before the change, or none after it: whether it helps is not \
             known",
        );
        return page.finish();
    };
    page.labelled("after", &run(Some(&compared.after)));
    page.gap();
    let paint = if compared.does_harm() { Paint::Fault } else { Paint::Bold };
    page.paragraph(Some(paint), &comparison::sentence(compared, page.look.language), 0);
    let mut text = page.finish();
    text += &comparison::tables(compared, look);
    text + "\n"
}

/// Renders how the treatment ended.
pub fn end(record: &Record, counts: Option<&Counts>, end: &End, look: &Look) -> String {
    let mut page = Page::new(look);
    if let Some(why) = &end.alarm {
        page.warning(&format!("undone by the guard: {why}"));
    }
    if let Some(why) = &end.trouble {
        page.warning(&format!("undone after a failure: {why}"));
    }
    if let Some(new) = counts.map(|counts| counts.changed_new).filter(|&new| new > 0) {
        let new = counted(new, "connection that opened", "connections that opened");
        page.labelled("treated", &format!("{new} meanwhile"));
    }
    if let Some(sent) = end.sent {
        let answered = counted(sent.answered, "request", "requests");
        page.labelled("load", &format!("{answered} answered, {} failed", count(sent.failed)));
    }
    match &end.undone {
        Some(undone) if end.by_other => {
            page.labelled("ended", "another process undid it");
            state_left(&mut page, undone, false);
        }
        Some(undone) => state_undone(&mut page, &record.what, undone, false),
        None => {
            page.labelled(
                "kept",
                &format!(
                    "until: sudo tcpwhy treat undo {}. Connections that open from now on are not \
                     treated: set it in the application's configuration",
                    record.id
                ),
            );
        }
    }
    page.finish()
}

fn state_undone(page: &mut Page<'_>, what: &What, undone: &Undone, is_forgotten: bool) {
    let is_sockets = matches!(what, What::Sockets { .. });
    let others = undone.changed_meanwhile.len() as u64;
    let mut parts = Vec::new();
    if undone.restored + undone.gone + others == 0 && undone.failed.is_empty() {
        parts.push("nothing is left to restore: the sockets have closed".into());
    }
    if undone.restored > 0 {
        let noun = match is_sockets {
            true => counted(undone.restored, "socket", "sockets"),
            false => counted(undone.restored, "thing", "things"),
        };
        parts.push(format!("{noun} restored"));
    }
    if undone.was_reboot && undone.gone > 0 {
        parts.push(format!("{} gone: the system was started again since", count(undone.gone)));
    } else if undone.gone > 0 && is_sockets {
        parts.push(format!("{} closed since", count(undone.gone)));
    } else if undone.gone > 0 {
        let names = printable(&undone.gone_objects.join(", "));
        parts.push(format!("{} gone since: {names}", count(undone.gone)));
    }
    if others > 0 {
        parts.push(format!("{} changed by others meanwhile: left alone", count(others)));
    }
    if !undone.failed.is_empty() {
        parts.push(format!("{} not restored", count(undone.failed.len() as u64)));
    }
    if undone.syns_dropped > 0 {
        let syns = counted(undone.syns_dropped, "SYN was", "SYNs were");
        parts.push(format!("{syns} dropped by the limit"));
    }
    if undone.by_its_process {
        parts.push("done by the process that treated, which has ended".into());
    }
    page.labelled("undone", &parts.join(" · "));
    state_left(page, undone, is_forgotten);
}

/// Says what is left of a treatment.
fn state_left(page: &mut Page<'_>, undone: &Undone, is_forgotten: bool) {
    let where_to = if is_forgotten { "forgotten" } else { "still in the journal" };
    for failed in &undone.failed {
        page.warning(&format!("not restored, and {where_to}: {}", printable(failed)));
    }
    for changed in undone.changed_meanwhile.iter().take(GROUPS_MAX) {
        page.warning(&format!("{where_to}: {}", printable(&changed.words())));
    }
    let omitted = undone.changed_meanwhile.len().saturating_sub(GROUPS_MAX);
    if omitted > 0 {
        page.warning(&format!("{} more (--json lists all)", count(omitted as u64)));
    }
    if let Some(why) = &undone.journal {
        page.warning(&format!("the journal does not show it: {}", printable(why)));
    }
    if !undone.is_whole() && !is_forgotten {
        let id = undone.id;
        page.labelled(
            "then",
            &format!(
                "sudo tcpwhy treat undo {id} restores what is as the treatment set it; with \
                 --forget it also ends the record"
            ),
        );
    }
}

/// Renders the result of `tcpwhy treat undo`.
pub fn undone(
    all: &[(Record, Undone)],
    garbage: &[tcpwhy_treat::TreatError],
    is_forgotten: bool,
    look: &Look,
) -> String {
    let mut page = Page::new(look);
    for (record, undone) in all {
        page.line(&look.paint(Paint::Bold, &title(record)));
        state_undone(&mut page, &record.what, undone, is_forgotten);
    }
    for problem in garbage {
        page.warning(&problem.to_string());
    }
    if all.is_empty() && garbage.is_empty() {
        page.line("nothing is treated");
    }
    page.finish()
}

/// Renders the treatments that are in effect.
pub fn status(records: &Records, look: &Look) -> String {
    let mut page = Page::new(look);
    for problem in &records.garbage {
        page.warning(&problem.to_string());
    }
    if records.records.is_empty() {
        page.line("nothing is treated");
    }
    for record in &records.records {
        page.gap();
        page.line(&look.paint(Paint::Bold, &title(record)));
        let user = record.by.user.clone().unwrap_or_else(|| format!("uid {}", record.by.uid));
        let since = tcpwhy_treat::clock(record.since.unix_ns);
        page.labelled("by", &format!("{}, since {since}", printable(&user)));
        page.labelled("state", &state(record));
        groups(&mut page, &socket_changes(&record.changes));
        for change in &record.changes {
            if !matches!(change, Change::Socket(_)) {
                page.item(&printable(&format!("{}: {}", change.words(), change.from_to())));
            }
        }
        page.labelled("undo", &format!("sudo tcpwhy treat undo {}", record.id));
    }
    page.finish()
}

fn title(record: &Record) -> String {
    format!("{}  {}", record.id, printable(&record.what.words()))
}

fn state(record: &Record) -> String {
    let files = tcpwhy_treat::files_left(record);
    if !tcpwhy_treat::is_of_this_boot(record) {
        return match files.as_slice() {
            [] => "gone: the system was started again since; undo forgets it".into(),
            some => format!(
                "left behind: the system was started again since, and {} is still changed",
                printable(&some.join(", "))
            ),
        };
    }
    let pid = record.by.process.pid;
    match record.state {
        Lifetime::Kept => "kept".into(),
        Lifetime::Running if tcpwhy_treat::is_running(record) => {
            format!("running: process {pid} undoes it when it ends")
        }
        Lifetime::Running => format!("left behind: process {pid} has ended without restoring it"),
    }
}

/// Renders what a treatment of sockets would change.
pub fn plan_sockets(
    asked: &TreatmentRequest,
    changes: &[SocketChange],
    counts: &Counts,
    look: &Look,
) -> String {
    let mut page = Page::new(look);
    let sockets = counted(counts.changed, "socket", "sockets");
    let option = asked.setting.option();
    page.labelled("plan", &format!("{option} of {sockets}, and of those that open later"));
    groups(&mut page, changes);
    for change in changes.iter().take(SOCKETS_MAX) {
        page.item(&format!("{} – {}", change.local, change.peer));
    }
    if changes.len() > SOCKETS_MAX {
        page.item(&format!(
            "{} more (--json lists all)",
            count((changes.len() - SOCKETS_MAX) as u64)
        ));
    }
    rest(&mut page, counts);
    page.line("nothing was changed");
    page.finish()
}

/// Renders what a treatment of the host would change.
pub fn plan_host(plan: &HostPlan, look: &Look) -> String {
    let mut page = Page::new(look);
    host_changes(&mut page, "plan", &plan.changes, &plan.risks);
    page.line("nothing was changed");
    page.finish()
}

fn host_changes(page: &mut Page<'_>, label: &str, changes: &[Change], risks: &[&str]) {
    for change in changes {
        let what = format!("{} {}", change.words(), change.from_to());
        page.labelled(label, &printable(&what));
    }
    for risk in risks {
        page.labelled("risk", risk);
    }
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}
