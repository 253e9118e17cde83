//! Each table and each bound of the core has an input that fills it, so that a new one is not
//! forgotten.

use std::fs;
use std::path::{Path, PathBuf};

/// Types of fields that grow with the input and are never emptied by themselves: tables and queues.
const TABLES: [&str; 7] =
    ["HashMap<", "BTreeMap<", "BTreeSet<", "VecDeque<", "HashSet<", "HashTable<", "Queue<"];

/// Files of tables and bounds, with the generator of [`crate::all`] that fills them.
const FILLED: [(&str, &str); 79] = [
    ("app/calls.rs", "modbus: calls (client)"),
    ("app/dialogue.rs", "smtp: commands (client)"),
    ("app/exchanges.rs", "http: requests, none answered"),
    ("app/flow_control.rs", "http2: grants (client)"),
    ("app/frames.rs", "websocket: requests, then responses"),
    ("app/hpack.rs", "http2: fields (server)"),
    ("app/known.rs", "http: requests, then responses"),
    ("app/memcached.rs", "memcached: without reply (client)"),
    ("app/mysql.rs", "mysql: queries (client)"),
    ("app/packets.rs", "postgres: single bytes"),
    ("app/redis.rs", "redis: commands that wait (client)"),
    ("app/request_headers.rs", "http2: paths (client)"),
    ("app/streams.rs", "http2: responses without request"),
    ("capture/mod.rs", "large frames, clock set"),
    ("capture/pcapng.rs", "interfaces"),
    ("capture/repeats.rs", "SYNs to many servers"),
    ("capture/set.rs", "files at the same time"),
    ("capture/snoop.rs", "empty records in snoop"),
    ("dns/early.rs", "answers without query"),
    ("dns/grouping.rs", "queries of one socket for one name"),
    ("dns/grouping/fragments.rs", "fragments of answers"),
    ("dns/open.rs", "queries of one client for many names"),
    ("dns/streams.rs", "names over TCP"),
    ("dns/tracker.rs", "answers of many resolvers"),
    ("dns/unasked.rs", "answers of many servers without query"),
    ("findings/answers.rs", "answered look-ups without end"),
    ("findings/attempts.rs", "closed"),
    ("findings/causes/syn_flood.rs", "SYNs"),
    ("findings/fallback.rs", "SYNs to many servers"),
    ("findings/legs.rs", "single requests"),
    ("findings/listeners.rs", "closed between many hosts"),
    ("findings/loaded_line.rs", "closed between many hosts"),
    ("findings/lookups.rs", "answered look-ups without end"),
    ("findings/lookups/served.rs", "answered look-ups without end"),
    ("findings/mute_hosts.rs", "SYNs to many servers"),
    ("findings/numbers.rs", "SYNs to many servers"),
    ("findings/overflow.rs", "SYN-ACKs"),
    ("findings/retries.rs", "reset between many hosts"),
    ("findings/settling.rs", "closed at many servers"),
    ("findings/tally.rs", "closed at many servers"),
    ("findings/tally/affected_clients.rs", "refused"),
    ("findings/tally/causes.rs", "reset between many hosts"),
    ("findings/tally/endpoint/kinds.rs", "closed"),
    ("findings/tally/endpoint/under_way.rs", "pauses"),
    ("findings/tally/firsts.rs", "closed between many hosts"),
    ("findings/tally/flows.rs", "much behind a hole"),
    ("findings/tally/history.rs", "reset between many hosts, watched"),
    ("findings/tally/hosts.rs", "closed between many hosts"),
    ("findings/tally/messages.rs", "closed between many hosts"),
    ("findings/tally/queues.rs", "closed between many hosts"),
    ("findings/tally/receiving_hosts.rs", "closed between many hosts"),
    ("findings/tally/slowest.rs", "pauses"),
    ("findings/tally/waits.rs", "pauses"),
    ("findings/upstream_wait/cover.rs", "pauses"),
    ("findings/upstream_wait/elsewhere.rs", "pauses"),
    ("findings/worst.rs", "closed"),
    ("join/datagrams.rs", "two places"),
    ("join/flow_direction.rs", "two places"),
    ("join/judge.rs", "two places"),
    ("join/pairs.rs", "two places"),
    ("judge/queue_delay.rs", "pauses"),
    ("pipeline/names.rs", "answered look-ups without end"),
    ("pipeline/sliding.rs", "closed, watched"),
    ("pipeline/translated.rs", "the same packets with other addresses"),
    ("survey/common.rs", "copies of one file"),
    ("survey/mod.rs", "copies of one file"),
    ("tcp/acks.rs", "in flight, acknowledged singly"),
    ("tcp/connection/kept.rs", "single requests"),
    ("tcp/early.rs", "open behind a hole"),
    ("tcp/reassembly.rs", "bytes behind holes"),
    ("tcp/sender/copies.rs", "data again and again"),
    ("tcp/sender/holes.rs", "lost and repeated"),
    ("tcp/sent.rs", "much in flight"),
    ("tcp/setup.rs", "one SYN again and again"),
    ("tcp/shared.rs", "closed"),
    ("tcp/timeline.rs", "http: requests, none answered"),
    ("tcp/timeline/in_progress.rs", "http: requests, none answered"),
    ("tcp/tracker.rs", "SYNs"),
    ("tcp/tracker/closed.rs", "closed"),
];

/// More of these.
const FILLED_BY_PACKETS: [(&str, &str); 24] = [
    ("findings/announced.rs", "announced addresses of FTP"),
    ("findings/asked.rs", "answered look-ups without end"),
    ("findings/client_isolated.rs", "SYNs to many servers"),
    ("findings/distance.rs", "closed at many servers"),
    ("findings/failed_upstream.rs", "errors of servers"),
    ("findings/forwarded.rs", "answered look-ups without end"),
    ("findings/left_waiting.rs", "left waiting"),
    ("findings/quic.rs", "clients of QUIC"),
    ("findings/slow.rs", "closed at many servers"),
    ("findings/tally/acts.rs", "requests after idleness"),
    ("findings/unheard.rs", "never acknowledged"),
    ("pipeline/addresses.rs", "ARP requests and replies"),
    ("model/quic.rs", "clients of QUIC"),
    ("pipeline/quic.rs", "clients of QUIC"),
    ("quic/connection.rs", "connections of QUIC between two ports"),
    ("quic/crypto_stream.rs", "connections of QUIC between two ports"),
    ("quic/frames.rs", "clients of QUIC"),
    ("quic/spin.rs", "a spin bit that turns in each packet"),
    ("quic/tracker.rs", "clients of QUIC"),
    ("wire/dns_message.rs", "many answers in a message"),
    ("wire/ip.rs", "stacked IPv6 extensions"),
    ("wire/link.rs", "stacked VLANs"),
    ("wire/reassembler.rs", "first fragments"),
    ("wire/reassembler/partial.rs", "fragments far apart"),
];

/// Files and folders whose tables no captured packet fills, and why.
const APART: [(&str, &str); 20] = [
    ("anonymize/", "a second tool, which keeps what it has replaced"),
    ("capture/commented.rs", "comments are those of one report"),
    ("capture/encoder.rs", "lengths of what is written"),
    ("capture/frame.rs", "the width of an identifier"),
    ("compare/", "two reports"),
    ("drill/", "one connection, which was asked for"),
    ("filter/", "the command line"),
    ("findings/causes/lookup.rs", "what is shown of one look-up"),
    ("findings/endpoints.rs", "what is shown of one endpoint"),
    ("findings/proof.rs", "the proof of one finding"),
    ("findings/scans", "the proof of one finding"),
    ("findings/thresholds.rs", "a threshold"),
    ("graph.rs", "one connection, which was asked for"),
    ("join/", "the two reports of two places, and their clocks"),
    ("literal.rs", "names in blobs of the program itself, which has few"),
    ("picture", "what a page shows, which has a bound"),
    ("pipeline.rs", "what is reported, of tables that are filled elsewhere"),
    ("queue.rs", "the type"),
    ("report/", "what is printed"),
    ("stages/", "buffers of what is written, and one count for each bucket or file"),
];

/// More of these.
const APART_ALSO: [(&str, &str); 17] = [
    ("app/hello.rs", "what one message offers, of which a bounded number is kept"),
    ("app/kind.rs", "words of one kind of request"),
    ("app/listed.rs", "one word"),
    ("app/redis/whole.rs", "one length"),
    ("app/software.rs", "one version"),
    ("app/words.rs", "words of one part of a path"),
    ("check/", "packets of the connections that a report names, which has bounds of its own"),
    ("findings/causes/error_responses.rs", "what is shown of one finding"),
    ("findings/lossy_access.rs", "ways to servers, of which the tally keeps a bounded number"),
    ("findings/lookups/unwaited.rs", "servers of look-ups, of which a bounded number is kept"),
    ("findings/selective.rs", "clients, of which the tally keeps a bounded number"),
    ("keys/", "secrets, which the user gives or a block of a capture; they have a bound"),
    ("model/outcome.rs", "codes of one server"),
    ("state/", "the sockets of one host"),
    ("tcp/exchange/account.rs", "one connection, which was asked for"),
    ("tcp/exchange/revisions.rs", "one connection, which was asked for"),
    ("tcp/trace.rs", "one connection, which was asked for"),
];

fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("a folder").flatten() {
        let path = entry.path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|it| it == "rs") {
            found.push(path);
        }
    }
}

/// Returns whether a line declares a field that is a table, or a bound.
fn declares(line: &str) -> bool {
    let declared = line.trim_start().trim_start_matches("pub").trim_start();
    let declared = declared
        .split_once(") ")
        .map_or(declared, |(head, rest)| if head.starts_with('(') { rest } else { declared });
    let is_bound = declared.starts_with("const ") && declared.contains("_MAX: usize");
    let Some((name, of)) = declared.split_once(": ") else {
        return is_bound
            || declared.starts_with("struct") && TABLES.iter().any(|it| line.contains(it));
    };
    let is_field =
        name.chars().all(|it| it.is_ascii_lowercase() || it == '_') && line.ends_with(',');
    is_bound || is_field && TABLES.iter().any(|it| of.contains(it)) && !of.contains('(')
}

#[test]
fn each_table_and_bound_has_a_generator() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut files = Vec::new();
    sources(&root, &mut files);
    let names: Vec<_> = crate::all().into_iter().map(|hostile| hostile.name).collect();
    let filled = || FILLED.iter().chain(&FILLED_BY_PACKETS);
    let apart = || APART.iter().chain(&APART_ALSO);
    for (file, generator) in filled() {
        assert!(names.iter().any(|name| name == generator), "{file}: no generator {generator:?}");
    }
    let mut forgotten = Vec::new();
    for path in files {
        let file = path.strip_prefix(&root).expect("in it").to_string_lossy().replace('\\', "/");
        let text = fs::read_to_string(&path).expect("a source");
        let code = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
        let known = filled().any(|(known, _)| *known == file)
            || apart().any(|(known, _)| file.starts_with(known))
            || file.contains("tests");
        if let Some(line) = code.lines().find(|line| declares(line)).filter(|_| !known) {
            forgotten.push(format!("{file}: {}", line.trim()));
        }
    }
    assert!(forgotten.is_empty(), "no generator fills {forgotten:#?}");
}
