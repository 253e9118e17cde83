//! The picture as JSON, which a page contains beside the report. Times are relative to the
//! capture's first frame, ns, so that they fit into a double.

use super::{Drawing, DrawnConnection, ExchangeRow, Graphs, Picture, SetUps, columns, texts};
use crate::capture::FrameId;
use crate::dns::{Lookup, LookupOutcome};
use crate::graph::{Mark, Point};
use crate::model::units::endpoint;
use crate::model::{Language, Report};
use crate::report::{Ladder, LadderStep, Step, json};
use serde_json::{Map, Value, json};
use std::net::Ipv6Addr;

impl Picture {
    /// Returns the picture as JSON, for the page of `report`.
    pub fn json(&self, report: &Report) -> Value {
        let zero_ns = report.totals.first_ns;
        json!({
            "exchanges": {
                "seen": self.exchanges.seen,
                "rows": self.exchanges.rows.iter().map(|it| exchange(it, zero_ns)).collect::<Vec<_>>(),
            },
            "drawings": self.drawings.iter().map(|it| drawing(it, zero_ns)).collect::<Vec<_>>(),
            "connections":
                self.connections.iter().map(|it| connection(it, zero_ns)).collect::<Vec<_>>(),
            "set_ups": self.set_ups.iter().map(|it| set_ups(it, zero_ns)).collect::<Vec<_>>(),
            "lookups": self.lookups.iter().map(|it| lookup(it, zero_ns)).collect::<Vec<_>>(),
            "lookups_omitted": self.lookups_omitted,
            "manuals": texts::manuals(report, Language::English),
            "texts": texts::texts(report),
        })
    }
}

fn since(zero_ns: u64, at_ns: u64) -> i64 {
    i64::try_from(at_ns).unwrap_or(i64::MAX) - i64::try_from(zero_ns).unwrap_or(i64::MAX)
}

fn frame(frame: FrameId) -> Value {
    json!([frame.file(), frame.number()])
}

fn exchange(row: &ExchangeRow, zero_ns: u64) -> Value {
    let ledger: Map<String, Value> =
        row.ledger.iter().map(|(owner, ns)| (owner.id().to_owned(), json!(ns))).collect();
    json!({
        "client": endpoint(&row.client),
        "server": endpoint(&row.server),
        "protocol": row.protocol.id(),
        "number": row.number,
        "kind": row.kind,
        "first": frame(row.first),
        "last": frame(row.last),
        "start_ns": since(zero_ns, row.start_ns),
        "wall_ns": row.wall_ns,
        "ledger": ledger,
        "causes": row.causes.iter().map(|it| it.id()).collect::<Vec<_>>(),
        "outcome": row.outcome.to_string(),
    })
}

fn drawing(drawing: &Drawing, zero_ns: u64) -> Value {
    json!({
        "finding": drawing.finding,
        "connection": drawing.connection.map(frame),
        "ladder": ladder(&drawing.ladder),
        "graphs": drawing.graphs.as_ref().map(|it| graphs(it, zero_ns)),
    })
}

fn connection(drawn: &DrawnConnection, zero_ns: u64) -> Value {
    let exchanges = drawn.exchanges.iter().map(|it| {
        json!({
            "row": [frame(it.row.0), it.row.1],
            "number": it.number,
            "start_ns": since(zero_ns, it.start_ns),
            "steps": steps(&it.ladder),
        })
    });
    json!({
        "first": frame(drawn.first),
        "client": endpoint(&drawn.ladder.client),
        "server": endpoint(&drawn.ladder.server),
        "start_ns": since(zero_ns, drawn.start_ns),
        "steps": steps(&drawn.ladder),
        "graphs": drawn.graphs.as_ref().map(|it| graphs(it, zero_ns)),
        "exchanges": exchanges.collect::<Vec<_>>(),
    })
}

/// Returns the ladder with the file of each frame that is not of the first.
fn ladder(ladder: &Ladder) -> Value {
    let mut value = json::ladder(ladder);
    let written = value["steps"].as_array_mut().into_iter().flatten();
    for (step, written) in ladder.steps.iter().zip(written) {
        if let Step::Segment { frame, .. } = &step.step
            && frame.file() > 0
        {
            written["file"] = json!(frame.file());
        }
    }
    value
}

/// Returns the steps of a ladder, of which a page may have thousands, in brief: a mark is
/// `[time_ns, label]`; a segment `[time_ns, side, frame, label]`, with the file if that is not the
/// first; a silence `[time_ns, [duration_ns, owner, cause, since_ns, until_frame]]`.
fn steps(ladder: &Ladder) -> Value {
    let brief = |it: &LadderStep| match &it.step {
        Step::Segment { from, frame, label } if frame.file() == 0 => {
            json!([it.time_ns, *from as usize, frame.number(), label.text(Language::English)])
        }
        Step::Segment { from, frame, label } => {
            let label = label.text(Language::English);
            json!([it.time_ns, *from as usize, frame.number(), label, frame.file()])
        }
        Step::Gap { duration_ns, owner, cause, beyond } => {
            let (cause, until) = (cause.map(|it| it.id()), beyond.until.map(FrameId::number));
            json!([it.time_ns, [duration_ns, owner.id(), cause, beyond.since_ns, until]])
        }
        Step::Mark(mark) => json!([it.time_ns, mark.text(Language::English)]),
    };
    ladder.steps.iter().map(brief).collect()
}

/// Bits of a point's `flags` column.
const FROM_SERVER: u64 = 1;
const HAS_ACK: u64 = 2;
const MARK_SHIFT: u64 = 4;
const TCP_SHIFT: u64 = 8;

fn flags(point: &Point) -> u64 {
    let mark = match point.mark {
        Mark::New => 0,
        Mark::Retransmission => 1,
        Mark::OutOfOrder => 2,
        Mark::Probe => 3,
    };
    let from = FROM_SERVER * point.from as u64;
    let has_ack = if point.ack.is_some() { HAS_ACK } else { 0 };
    from | has_ack | mark << MARK_SHIFT | u64::from(point.flags.0) << TCP_SHIFT
}

fn graphs(graphs: &Graphs, zero_ns: u64) -> Value {
    let points = &graphs.points;
    let ms = |at_ns: u64| since(zero_ns, at_ns) as f64 / 1e6;
    // Positions grow by less than 4 GiB in so few segments, so relative ones fit into 32 bits.
    let base = |side: usize| {
        let seqs = points.iter().filter(|it| it.from as usize == side).map(|it| it.seq);
        let acks = points.iter().filter(|it| it.from as usize != side).filter_map(|it| it.ack);
        seqs.chain(acks).min().unwrap_or(0)
    };
    let bases = [base(0), base(1)];
    let stalls = graphs.stalls.iter().map(|it| {
        json!({
            "start_ms": ms(it.start_ns), "end_ms": ms(it.end_ns), "owner": it.owner,
            "cause": it.cause.map(|cause| cause.id()),
        })
    });
    let seqs = points.iter().map(|it| it.seq - bases[it.from]);
    let acks = points.iter().map(|it| it.ack.map_or(0, |ack| ack - bases[1 - it.from as usize]));
    // A window whose scale was not captured is unknown, which is encoded as the maximum.
    let windows = points.iter().map(|it| it.window_bytes.unwrap_or(u64::MAX));
    let is_one = points.iter().all(|it| it.frame.file() == 0);
    let files = (!is_one).then(|| columns::u16s(points.iter().map(|it| it.frame.file().into())));
    json!({
        "exchange_ms": [ms(graphs.exchange_ns.0), ms(graphs.exchange_ns.1)],
        "left_out": graphs.left_out,
        "seq_first": bases,
        "columns": {
            "time_ms": columns::f64s(points.iter().map(|it| ms(it.time_ns))),
            "file": files,
            "frame": columns::u32s(points.iter().map(|it| it.frame.number())),
            "flags": columns::u16s(points.iter().map(flags)),
            "seq": columns::u32s(seqs),
            "len": columns::u32s(points.iter().map(|it| it.len.into())),
            "ack": columns::u32s(acks),
            "window": columns::u32s(windows),
            "flight": columns::u32s(points.iter().map(|it| it.flight_size_bytes)),
        },
        "rtts": {
            "time_ms": columns::f64s(graphs.rtts.iter().map(|it| ms(it.time_ns))),
            "rtt_ms": columns::f64s(graphs.rtts.iter().map(|it| it.rtt_ns as f64 / 1e6)),
            "sender": columns::u16s(graphs.rtts.iter().map(|it| it.sender as u64)),
            "frame": columns::u32s(graphs.rtts.iter().map(|it| it.frame.number())),
        },
        "stalls": stalls.collect::<Vec<_>>(),
    })
}

fn set_ups(set_ups: &SetUps, zero_ns: u64) -> Value {
    json!({
        "server": endpoint(&set_ups.server),
        "first_ns": since(zero_ns, set_ups.first_ns),
        "interval_ns": set_ups.interval_ns,
        "begun": set_ups.begun,
        "answered": set_ups.answered,
        "completed": set_ups.completed,
        "ended": set_ups.ended,
    })
}

fn lookup(lookup: &Lookup, zero_ns: u64) -> Value {
    let outcome = match lookup.outcome {
        LookupOutcome::Answered => "answered",
        LookupOutcome::NxDomain => "no such name",
        LookupOutcome::Failure { .. } => "failed",
        LookupOutcome::Timeout => "no answer",
    };
    let queries = lookup.queries.iter().map(|query| {
        json!({
            "server": endpoint(&query.server),
            "qtype": crate::findings::causes::lookup::type_name(query.qtype),
            "sent_ns": since(zero_ns, query.sent_ns),
            "answered_ns": query.answered_ns.map(|ns| since(zero_ns, ns)),
            "rcode": query.rcode,
            "over_tcp": query.flags.over_tcp,
            "frame": frame(query.query_frame),
            "answer": query.answer_frame.map(frame),
        })
    });
    json!({
        "client": Ipv6Addr::from(lookup.client).to_canonical().to_string(),
        "name": lookup.name,
        "start_ns": since(zero_ns, lookup.start_ns),
        "end_ns": since(zero_ns, lookup.end_ns),
        "outcome": outcome,
        "queries": queries.collect::<Vec<_>>(),
    })
}
