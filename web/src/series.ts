// What each graph of a connection shows, from its points.

import { FLAG, f64, points, u16, u32, type Points, type RawGraphs, type Stall } from "./data";

export type Column = (number | null)[];

/** Who sends the data that is looked at: 0 the client, 1 the server. */
export type Sender = 0 | 1;

/** Owners of silences in which a sender had used up a limit. */
const LIMITS = new Set([
  "send_buffer",
  "receive_window",
  "http2_flow_control",
  "congestion_window",
]);

/** Times are stated to the nanosecond. */
const NANOSECOND_MS = 1e-6;

export interface Span {
  from: number;
  to: number;
}

export interface Series {
  points: Points;
  stalls: Stall[];
  time: Float64Array;
  /** End of each segment of the sender, by what it is to its stream. */
  sent: [Column, Column, Column, Column];
  /** What its receiver has acknowledged, and the right edge of what that offers. */
  acked: Column;
  edge: Column;
  window: Column;
  flight: Column;
  limit: Column;
  zeroWindow: Span[];
  rtt: { time: Float64Array; ms: Column; frame: Float64Array };
}

/** The side that sent more data. */
export function busier(graphs: RawGraphs): Sender {
  const all = points(graphs);
  const sums: [number, number] = [0, 0];
  for (let at = 0; at < all.size; at++) sums[all.from(at)] += all.len[at]!;
  return sums[1] >= sums[0] ? 1 : 0;
}

export function series(graphs: RawGraphs, sender: Sender): Series {
  const all = points(graphs);
  const none = (): Column => new Array<number | null>(all.size).fill(null);
  const made: Series = {
    points: all,
    stalls: graphs.stalls,
    time: all.time,
    sent: [none(), none(), none(), none()],
    acked: none(),
    edge: none(),
    window: none(),
    flight: none(),
    limit: none(),
    zeroWindow: [],
    rtt: roundTrips(graphs, sender),
  };
  const stops = graphs.stalls.filter((it) => LIMITS.has(it.owner));
  let closed: number | null = null,
    last = 0,
    next = 0,
    nxt = 0,
    una = 0;
  for (let at = 0; at < all.size; at++) {
    const time = all.time[at]!;
    // A stall begins with the last segment before it: that is the one in which the limit was met.
    while (next < stops.length && stops[next]!.start_ms < time - NANOSECOND_MS) {
      if (at > 0) made.limit[at - 1] = last;
      next += 1;
    }
    if (all.from(at) === sender) {
      last = all.flight[at]!;
      made.flight[at] = last;
      nxt = Math.max(nxt, all.seq(at) + all.len[at]!);
      if (all.len[at]! > 0)
        made.sent[all.mark(at) as 0 | 1 | 2 | 3][at] = all.seq(at) + all.len[at]!;
      continue;
    }
    if (!all.hasAck(at)) continue;
    const window = all.window(at);
    una = Math.max(una, all.ack(at));
    if (nxt > 0) made.flight[at] = last = Math.max(0, nxt - una);
    made.acked[at] = all.ack(at);
    made.window[at] = window;
    made.edge[at] = window === null ? null : all.ack(at) + window;
    const isOpen = (all.tcp(at) & (FLAG.SYN | FLAG.FIN)) !== 0 || window === null || window > 0;
    if (!isOpen && closed === null) closed = time;
    if (isOpen && closed !== null) {
      made.zeroWindow.push({ from: closed, to: time });
      closed = null;
    }
  }
  if (closed !== null) made.zeroWindow.push({ from: closed, to: all.time[all.size - 1]! });
  return made;
}

function roundTrips(graphs: RawGraphs, sender: Sender): Series["rtt"] {
  const time = f64(graphs.rtts.time_ms),
    ms = f64(graphs.rtts.rtt_ms),
    frame = u32(graphs.rtts.frame);
  const from = u16(graphs.rtts.sender);
  const kept = [...from.keys()].filter((at) => from[at] === sender);
  return {
    time: Float64Array.from(kept, (at) => time[at]!),
    ms: kept.map((at) => ms[at]!),
    frame: Float64Array.from(kept, (at) => frame[at]!),
  };
}

/** Intervals of the visible time in which throughput is measured. */
const INTERVALS = 120;

/** Bits per second of data that was not sent before, by interval of `view`. */
export function throughput(of: Series, sender: Sender, view: Span): [number[], number[]] {
  const width = (view.to - view.from) / INTERVALS;
  const sums = new Array<number>(INTERVALS).fill(0);
  for (let at = 0; at < of.points.size; at++) {
    const place = Math.floor((of.time[at]! - view.from) / width);
    if (
      of.points.from(at) === sender &&
      of.points.mark(at) !== 1 &&
      place >= 0 &&
      place < INTERVALS
    ) {
      sums[place]! += of.points.len[at]!;
    }
  }
  return [
    sums.map((_, place) => view.from + width * place),
    sums.map((bytes) => (bytes * 8) / (width / 1e3)),
  ];
}

const MARKS = ["", "sent again", "out of order", "probe"];

/** A point in words. */
export function describe(of: Points, at: number): string {
  const names = Object.entries(FLAG)
    .filter(([name, bit]) => name !== "PSH" && (of.tcp(at) & bit) !== 0)
    .map(([name]) => name);
  const parts = [
    `${of.from(at) === 0 ? "client" : "server"} → ${of.from(at) === 0 ? "server" : "client"}`,
    names.join("+"),
  ];
  if (of.len[at]! > 0) parts.push(`seq ${of.seq(at)}, ${of.len[at]} B`);
  if (of.hasAck(at)) parts.push(`ack ${of.ack(at)}`);
  const window = of.window(at);
  if (of.hasAck(at))
    parts.push(
      window === null ? "window not known (its scale was not captured)" : `window ${window} B`,
    );
  parts.push(`in flight ${of.flight[at]} B`, MARKS[of.mark(at)] ?? "");
  return parts.filter((part) => part !== "").join(", ");
}
