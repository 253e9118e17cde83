//! Text output of `tcpwhy sockets`: groups of sockets, the limited ones first.

use super::groups::{Group, Key, Side, groups};
use std::collections::BTreeMap;
use tcpwhy_core::model::units::{bytes, count, counted, duration, printable};
use tcpwhy_core::report::{Look, Page, Paint};
use tcpwhy_live::diag::TcpState;
use tcpwhy_live::sockets::{NetnsCounters, Socket, Strength, Survey};

/// Number of groups shown unless all are asked for.
const GROUPS_MAX: usize = 12;
/// Number of processes named for a group.
const PIDS_MAX: usize = 4;

/// Renders the whole list.
pub fn render(survey: &Survey, look: &Look) -> String {
    let mut page = Page::new(look);
    for netns in &survey.netns {
        header(netns, survey, &mut page);
    }
    for unread in &survey.options_unread {
        page.warning(&format!(
            "options of {} were not read: {}",
            counted(unread.sockets, "socket", "sockets"),
            unread.reason.words(),
        ));
    }
    let groups = groups(&survey.sockets);
    let shown = if look.all { groups.len() } else { GROUPS_MAX };
    for (key, group) in groups.iter().take(shown) {
        page.gap();
        show(key, group, look, &mut page);
    }
    if groups.len() > shown {
        page.gap();
        let omitted = (groups.len() - shown) as u64;
        page.line(&format!(
            "{} more: --all shows them, --port or --pid narrows",
            counted(omitted, "group", "groups"),
        ));
    }
    page.finish()
}

fn header(netns: &NetnsCounters, survey: &Survey, page: &mut Page) {
    let here = survey.sockets.iter().filter(|socket| socket.netns == netns.name);
    let listening = here.filter(|socket| socket.state == TcpState::Listen).count() as u64;
    let place = match &netns.name {
        Some(name) => format!("in network namespace {}", printable(name)),
        None => "in this network namespace".to_owned(),
    };
    let mut parts =
        vec![format!("{} {place}", counted(netns.sockets, "TCP socket", "TCP sockets"))];
    let mut add = |number: u64, words: &str| {
        if number > 0 {
            parts.push(format!("{} {words}", count(number)));
        }
    };
    add(listening, "listening");
    add(netns.half_open, "half open");
    add(netns.time_wait, "in TIME-WAIT");
    page.line(&parts.join(" · "));
    let counters = &netns.listeners;
    let mut counted = Vec::new();
    let mut add = |number: u64, words: &str| {
        if number > 0 {
            counted.push(format!("{} {words}", count(number)));
        }
    };
    add(counters.listen_overflows, "connections dropped by full accept queues");
    add(counters.req_q_full_drop, "SYNs dropped by full SYN queues");
    add(counters.syncookies_sent, "SYN cookies sent");
    if !counted.is_empty() {
        let text = format!("since the namespace was made: {}", counted.join(" · "));
        page.paragraph(Some(Paint::Dim), &text, 2);
    }
}

fn show(key: &Key, group: &Group, look: &Look, page: &mut Page) {
    page.line(&look.paint(Paint::Bold, &title(key, group)));
    for (verdict, sockets, example) in group.verdicts() {
        let (word, paint) = match verdict.strength {
            Strength::Limits => ("LIMITS", Paint::Fault),
            Strength::CanLimit => ("can limit", Paint::Warning),
        };
        let of = match group.sockets.len() {
            1 => String::new(),
            all => format!("   {sockets} of {all} sockets"),
        };
        page.line(&format!("  {}  {}{of}", look.paint(paint, word), verdict.cause.id()));
        let end = example.peer.unwrap_or(example.local);
        let which = if sockets > 1 { format!("as with {end}: ") } else { String::new() };
        page.paragraph(None, &format!("{which}{}", verdict.sentence), 11);
    }
    if key.side == Side::Listener {
        for socket in &group.sockets {
            page.labelled("queues", &queues(socket));
        }
        return;
    }
    page.listed("options", &options(group));
    page.listed("state", &state(group));
    if look.all {
        for socket in &group.sockets {
            page.item(&one(socket));
        }
    }
}

fn title(key: &Key, group: &Group) -> String {
    let pids = group.pids();
    let numbers: Vec<_> = pids.iter().take(PIDS_MAX).map(u32::to_string).collect();
    let more = if pids.len() > PIDS_MAX { ", …" } else { "" };
    let program = if key.command.is_empty() {
        "unknown program".to_owned()
    } else {
        format!("{} (pid {}{more})", printable(&key.command), numbers.join(", "))
    };
    let sockets = group.sockets.len() as u64;
    let part = match key.side {
        Side::Listener => format!("listens at {}", key.service),
        Side::Server => {
            format!("serves {} at {}", counted(sockets, "connection", "connections"), key.service)
        }
        Side::Client => {
            format!("has {} to {}", counted(sockets, "connection", "connections"), key.service)
        }
    };
    let containers = group.sockets.iter().filter_map(|it| it.process.as_ref()?.container.as_ref());
    let container = match containers.min() {
        Some(id) => format!(", container {id}"),
        None => String::new(),
    };
    let netns = match &key.netns {
        Some(name) => format!(", namespace {}", printable(name)),
        None => String::new(),
    };
    format!("{program} {part}{container}{netns}")
}

fn queues(socket: &Socket) -> String {
    let Some(listener) = socket.listener else { return String::new() };
    format!(
        "{} of {} in the accept queue · {} half open",
        count(listener.accept_queue),
        count(listener.backlog),
        count(listener.half_open),
    )
}

/// Returns the options by value, with the number of sockets if they differ.
fn options(group: &Group) -> Vec<String> {
    let switch = |name: &'static str, of: fn(&Socket) -> Option<bool>| {
        values(group, |socket| {
            let word = match of(socket) {
                Some(true) => "on",
                Some(false) => "off",
                None => "not read",
            };
            Some(format!("{name} {word}"))
        })
    };
    let buffer = |name: &'static str, of: fn(&Socket) -> (u64, Option<bool>)| {
        values(group, |socket| {
            let (size, locked) = of(socket);
            let by = match locked {
                Some(true) => ", fixed by the application",
                Some(false) => ", autotuned",
                None => "",
            };
            Some(format!("{name} {}{by}", bytes(size)))
        })
    };
    [
        switch("nodelay", |socket| socket.options.nodelay),
        switch("cork", |socket| socket.options.cork),
        switch("quickack", |socket| socket.options.quickack),
        buffer("sndbuf", |it| (it.memory.sndbuf_bytes, it.options.sndbuf_locked)),
        buffer("rcvbuf", |it| (it.memory.rcvbuf_bytes, it.options.rcvbuf_locked)),
        values(group, |socket| socket.congestion_control.clone()),
    ]
    .concat()
}

/// Returns the two most frequent values, with their counts if not all sockets have the same.
fn values(group: &Group, of: impl Fn(&Socket) -> Option<String>) -> Vec<String> {
    let mut seen: BTreeMap<String, u64> = BTreeMap::new();
    for value in group.sockets.iter().filter_map(|socket| of(socket)) {
        *seen.entry(value).or_default() += 1;
    }
    let mut seen: Vec<_> = seen.into_iter().collect();
    seen.sort_by_key(|(_, sockets)| std::cmp::Reverse(*sockets));
    if let [(value, _)] = &seen[..] {
        return vec![value.clone()];
    }
    let shown = seen.iter().take(2).map(|(value, sockets)| format!("{value} ({sockets})"));
    shown.collect()
}

fn state(group: &Group) -> Vec<String> {
    let mut parts = values(group, |socket| Some(socket.state.name().to_owned()));
    let infos: Vec<_> = group.sockets.iter().filter_map(|socket| socket.tcp_info).collect();
    let rtts = infos.iter().map(|info| info.tcpi_rtt_us * 1_000).filter(|&rtt| rtt > 0);
    let range = |least: u64, most: u64, words: &dyn Fn(u64) -> String| {
        if words(least) == words(most) {
            words(least)
        } else {
            format!("{}–{}", words(least), words(most))
        }
    };
    if let (Some(least), Some(most)) = (rtts.clone().min(), rtts.max()) {
        parts.push(format!("round trip {}", range(least, most, &duration)));
    }
    let cwnds = infos.iter().map(|info| info.tcpi_snd_cwnd);
    if let (Some(least), Some(most)) = (cwnds.clone().min(), cwnds.max()) {
        parts.push(format!("cwnd {}", range(least, most, &count)));
    }
    let unread: u64 = group.sockets.iter().filter_map(|socket| socket.unread_bytes).sum();
    let unacked: u64 = group.sockets.iter().filter_map(|socket| socket.unacked_bytes).sum();
    let retransmitted: u64 = infos.iter().map(|info| info.tcpi_total_retrans).sum();
    let dropped: u64 = group.sockets.iter().map(|socket| socket.memory.drops).sum();
    let retransmissions = counted(retransmitted, "retransmission", "retransmissions");
    let drops = counted(dropped, "packet dropped by the socket", "packets dropped by the socket");
    for (amount, words) in [
        (unread, format!("{} not read by the application", bytes(unread))),
        (unacked, format!("{} not acknowledged", bytes(unacked))),
        (retransmitted, retransmissions),
        (dropped, drops),
    ] {
        if amount > 0 {
            parts.push(words);
        }
    }
    parts
}

fn one(socket: &Socket) -> String {
    let peer = socket.peer.map(|peer| format!(" – {peer}")).unwrap_or_default();
    let info = socket.tcp_info.unwrap_or_default();
    let mut parts = vec![format!("{}{peer}", socket.local), socket.state.name().to_owned()];
    if info.tcpi_rtt_us > 0 {
        parts.push(format!("round trip {}", duration(info.tcpi_rtt_us * 1_000)));
        parts.push(format!("cwnd {}", count(info.tcpi_snd_cwnd)));
    }
    for (amount, words) in [
        (socket.unread_bytes.unwrap_or(0), "not read"),
        (socket.unacked_bytes.unwrap_or(0), "not acknowledged"),
    ] {
        if amount > 0 {
            parts.push(format!("{} {words}", bytes(amount)));
        }
    }
    if info.tcpi_total_retrans > 0 {
        parts.push(format!("{} retransmitted", count(info.tcpi_total_retrans)));
    }
    parts.join(" · ")
}
