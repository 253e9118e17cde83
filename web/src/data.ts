// What the page is made of: the report (docs/report.schema.json) and the picture beside it.

export interface Latency {
  p50_ns: number;
  p90_ns: number;
  p99_ns: number;
  max_ns: number;
}
export type Ledger = Record<string, number>;

export interface PacketEvidence {
  kind: "packets";
  frame: number;
  file: string;
  part: string;
  what: string;
  from: "client" | "server";
  payload_bytes: number;
  after_ns: number;
  wireshark_filter: string;
}
export interface StateEvidence {
  kind: "state";
  agrees: boolean;
  what: string;
  setting: string;
  value: string;
  place: string;
}
export interface ExperimentEvidence {
  kind: "experiment";
  agrees: boolean;
  what: string;
}
export type Evidence = PacketEvidence | StateEvidence | ExperimentEvidence;

/** Percentiles: the likely values, and the ends of their intervals. */
export interface Prediction extends Latency {
  least: Latency;
  most: Latency;
}

export interface Finding {
  cause: string;
  class: "fault" | "cost";
  headline: string;
  culprit: { role: string; endpoint: string };
  affected: { exchanges: number; of_exchanges: number; connections: number };
  owners: string[];
  lost_ns: number;
  share: number;
  latency: Latency;
  counterfactual: Prediction;
  confidence: number;
  what: string;
  connection: { client: string; server: string } | null;
  evidence: Evidence[];
  ruled_out: { cause: string; why: string }[];
  fixes: { where: string; change: string; effect: string }[];
  draw: string | null;
  treat: string | null;
  verify: string;
}

export interface Endpoint {
  endpoint: string;
  software: string | null;
  protocol: string;
  connections: number;
  exchanges: number;
  ledger: Ledger;
  latency: Latency;
  kinds: { kind: string; exchanges: number; latency: Latency }[];
}

export interface Observation {
  id: string;
  what: string;
  limits: boolean;
  frames: { frame: number; file: string }[];
}

export interface Connection {
  number: number;
  client: string;
  server: string;
  protocol: string;
  exchanges: number;
  rtt_min_ns: number;
  lost_ns: number;
  ledger: Ledger;
  vantage: string;
  first_frame: { frame: number; file: string };
}

export interface Report {
  schema_version: number;
  tool_version: string;
  answer: string[];
  inputs: {
    path: string;
    packets: number;
    bytes: number;
    link_type: string;
    problems: { what: string; loses_frames: boolean }[];
  }[];
  totals: {
    connections: number;
    exchanges: number;
    lookups: number;
    segments: number;
    wall_ns: number;
    first_ns: number;
    last_ns: number;
    vantage: string;
  };
  ledger: Ledger;
  latency: Latency;
  latency_histogram: [number, number][];
  endpoints: Endpoint[];
  endpoints_omitted: number;
  findings: Finding[];
  observations: Observation[];
  connections: Connection[];
  connections_omitted: number;
}

/** File (its index in the report's inputs) and number, as Wireshark counts. */
export type Frame = [number, number];

export interface Exchange {
  client: string;
  server: string;
  protocol: string;
  number: number;
  kind: string;
  first: Frame;
  last: Frame;
  start_ns: number;
  wall_ns: number;
  ledger: Ledger;
  causes: string[];
  outcome: string;
}

export type Step =
  | {
      step: "segment";
      time_ns: number;
      from: "client" | "server";
      frame: number;
      /** The file of the frame, if that is not the first. */
      file?: number | undefined;
      label: string;
    }
  | {
      step: "gap";
      time_ns: number;
      duration_ns: number;
      owner: string;
      cause: string | null;
      since_ns: number | null;
      until_frame: number | null;
    }
  | { step: "mark"; time_ns: number; label: string };

/** A step in brief, as crates/core/src/picture/json.rs writes it. */
export type BriefStep =
  | [time_ns: number, label: string]
  | [time_ns: number, side: 0 | 1, frame: number, label: string, file?: number]
  | [
      time_ns: number,
      gap: [
        duration_ns: number,
        owner: string,
        cause: string | null,
        since_ns: number | null,
        until_frame: number | null,
      ],
    ];

/** Steps that were written in brief. */
export const briefly = (steps: BriefStep[]): Step[] =>
  steps.map((step): Step => {
    const time_ns = step[0];
    if (step.length > 2) {
      const [, side, frame, label, file] = step as [number, 0 | 1, number, string, number?];
      return {
        step: "segment",
        time_ns,
        from: side === 0 ? "client" : "server",
        frame,
        label,
        file,
      };
    }
    const second = step[1];
    if (typeof second === "string") return { step: "mark", time_ns, label: second };
    const [duration_ns, owner, cause, since_ns, until_frame] = second as [
      number,
      string,
      string | null,
      number | null,
      number | null,
    ];
    return { step: "gap", time_ns, duration_ns, owner, cause, since_ns, until_frame };
  });

export interface Ladder {
  client: string;
  server: string;
  steps: Step[];
}

export interface Stall {
  start_ms: number;
  end_ms: number;
  owner: string;
  cause: string | null;
}

export interface RawGraphs {
  exchange_ms: [number, number];
  left_out: [number, number];
  seq_first: [number, number];
  columns: Record<
    "time_ms" | "frame" | "flags" | "seq" | "len" | "ack" | "window" | "flight",
    string
  > & { file: string | null };
  rtts: Record<"time_ms" | "rtt_ms" | "sender" | "frame", string>;
  stalls: Stall[];
}

export interface Drawing {
  finding: number;
  /** First frame of its connection, if that is listed. */
  connection: Frame | null;
  ladder: Ladder;
  graphs: RawGraphs | null;
}

/** A connection of the report's list. */
export interface DrawnConnection {
  first: Frame;
  client: string;
  server: string;
  start_ns: number;
  steps: BriefStep[];
  /** Absent where the drawing of a finding has them. */
  graphs: RawGraphs | null;
  exchanges: DrawnExchange[];
}

export interface DrawnExchange {
  /** First frame and number of its row. */
  row: [Frame, number];
  /** As `--exchange` takes it. */
  number: number;
  start_ns: number;
  steps: BriefStep[];
}

export interface SetUps {
  server: string;
  first_ns: number;
  interval_ns: number;
  begun: number[];
  answered: number[];
  completed: number[];
  ended: number[];
}

export interface Lookup {
  client: string;
  name: string | null;
  start_ns: number;
  end_ns: number;
  outcome: string;
  queries: {
    server: string;
    qtype: string;
    sent_ns: number;
    answered_ns: number | null;
    rcode: number | null;
    over_tcp: boolean;
    frame: Frame;
    answer: Frame | null;
  }[];
}

export interface Manual {
  title: string;
  sections: { heading: string; text?: string; items?: string[] }[];
}

export interface Picture {
  exchanges: { seen: number; rows: Exchange[] };
  drawings: Drawing[];
  connections: DrawnConnection[];
  set_ups: SetUps[];
  lookups: Lookup[];
  lookups_omitted: number;
  manuals: Record<string, Manual>;
  /** What people read of the report, in each language but English. */
  texts?: Record<string, Texts>;
}

/** The texts of a report in one language, in the order of its files, findings and observations. */
export interface Texts {
  /** Problems of each file. */
  problems: string[][];
  answer: string[];
  findings: {
    headline: string;
    what: string;
    evidence: string[];
    ruled_out: string[];
    fixes: Finding["fixes"];
  }[];
  observations: string[];
  manuals: Record<string, Manual>;
}

/** A run that is shown; `id` stands before the ids of its sections where there are two. */
export interface Run {
  id: string;
  report: Report;
  picture: Picture;
}

/** The name of a file of the run. */
export const fileOf = (run: Run, at: number): string | undefined => run.report.inputs[at]?.path;

/** The causes that are faults in a run. */
export const faultsOf = (run: Run): Set<string> =>
  new Set(run.report.findings.filter((it) => it.class === "fault").map((it) => it.cause));

export interface Compared {
  name: string;
  exchanges: number;
  mean_ns: number;
  latency: Latency;
}

/** docs/comparison.schema.json */
export interface Comparison {
  /** The verdict in each language but English. */
  sentences?: Record<string, string>;
  verdict: string;
  worse: boolean;
  sentence: string;
  before: Compared;
  after: Compared;
  causes: {
    cause: string;
    class: string;
    role: string;
    before: { lost_per_exchange_ns: number } | null;
    after: { lost_per_exchange_ns: number } | null;
  }[];
  owners: { owner: string; before_per_exchange_ns: number; after_per_exchange_ns: number }[];
  new_faults: { cause: string }[];
  gone_faults: { cause: string }[];
}

export interface Data {
  runs: { report: Report; picture: Picture }[];
  comparison?: Comparison;
  /** The language in which the page opens. */
  language?: string;
}

/** The bytes of a base64 text. */
export function bytes(text: string): ArrayBuffer {
  const binary = atob(text);
  const array = new Uint8Array(binary.length);
  for (let at = 0; at < binary.length; at++) array[at] = binary.charCodeAt(at);
  return array.buffer;
}

export const f64 = (text: string): Float64Array => new Float64Array(bytes(text));
export const u16 = (text: string): Uint16Array => new Uint16Array(bytes(text));
export const u32 = (text: string): Uint32Array => new Uint32Array(bytes(text));

/** What stands in the window column where the window's scale was not captured. */
const UNKNOWN = 0xffffffff;

export const FLAG = { FIN: 1, SYN: 2, RST: 4, PSH: 8, ACK: 16 } as const;

/** The points of a graph, decoded: one entry a segment. */
export interface Points {
  size: number;
  time: Float64Array;
  frame: Uint32Array;
  /** Index of the frame's file. */
  file(at: number): number;
  /** 0: the client sent it, 1: the server. */
  from(at: number): 0 | 1;
  hasAck(at: number): boolean;
  /** 0 new, 1 sent again, 2 out of order, 3 probe. */
  mark(at: number): number;
  tcp(at: number): number;
  seq(at: number): number;
  len: Uint32Array;
  ack(at: number): number;
  window(at: number): number | null;
  flight: Uint32Array;
}

export function points(graphs: RawGraphs): Points {
  const { columns, seq_first } = graphs;
  const files = columns.file === null ? null : u16(columns.file);
  const time = f64(columns.time_ms),
    flags = u16(columns.flags);
  const seqs = u32(columns.seq),
    acks = u32(columns.ack),
    windows = u32(columns.window);
  const from = (at: number): 0 | 1 => ((flags[at]! & 1) === 1 ? 1 : 0);
  return {
    size: time.length,
    time,
    frame: u32(columns.frame),
    file: (at) => files?.[at] ?? 0,
    from,
    hasAck: (at) => (flags[at]! & 2) !== 0,
    mark: (at) => (flags[at]! >> 4) & 15,
    tcp: (at) => (flags[at]! >> 8) & 255,
    seq: (at) => seqs[at]! + seq_first[from(at)],
    len: u32(columns.len),
    ack: (at) => acks[at]! + seq_first[from(at) === 0 ? 1 : 0],
    window: (at) => (windows[at] === UNKNOWN ? null : windows[at]!),
    flight: u32(columns.flight),
  };
}
