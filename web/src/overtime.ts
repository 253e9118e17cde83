// Latency over time: each listed exchange where it began, those of findings in the colour and shape of
// their cause. Dragging asks for a part of the time; a point opens its exchange.

import type { Exchange, Finding, Frame, Lookup, Run } from "./data";
import { show } from "./detail";
import { count, counted, duration, fluid, h, svg } from "./dom";
import { anchor } from "./findings";
import type { Filter } from "./filter";
import { colourOf } from "./palette";
import * as place from "./place";

const H = 240,
  LEFT = 56,
  RIGHT = 14,
  TOP = 26,
  BOTTOM = 34;

/** Distance at which a point is still hit, in pixels; a finger needs more than a pointer. */
const NEAR_PX = 14;

type Shape = (x: number, y: number) => string;

/** Shapes of the findings' points, so that nothing depends on colour alone. */
const SHAPES: Shape[] = [
  (x, y) => `M${x - 5} ${y + 4.4}L${x} ${y - 5.6}L${x + 5} ${y + 4.4}Z`,
  (x, y) => `M${x - 4.5} ${y - 4.5}h9v9h-9Z`,
  (x, y) => `M${x} ${y - 6}L${x + 6} ${y}L${x} ${y + 6}L${x - 6} ${y}Z`,
  (x, y) => `M${x - 5} ${y - 4.4}L${x} ${y + 5.6}L${x + 5} ${y - 4.4}Z`,
];
const DOT: Shape = (x, y) => `M${x - 3.5} ${y}a3.5 3.5 0 1 0 7 0a3.5 3.5 0 1 0 -7 0Z`;

/** A finding that has exchanges, and how its points look. */
interface Marked {
  finding: Finding;
  /** Whether listed exchanges have its cause. */
  has: boolean;
  at: number;
  colour: string;
  shape: Shape;
  /** Start and length of the exchange or look-up that its evidence lies in, ns. */
  shown: Moment | undefined;
}

type Moment = [start_ns: number, wall_ns: number];

const ofExchange = (row: Exchange): Moment => [row.start_ns, row.wall_ns];
const ofLookup = (it: Lookup): Moment => [it.start_ns, it.end_ns - it.start_ns];

export function overTime(run: Run, filter: Filter): HTMLElement | null {
  const { rows, seen } = run.picture.exchanges,
    { lookups } = run.picture;
  if (rows.length + lookups.length === 0) return null;
  const marked = findings(run, rows);
  const readout = h("p", { class: "readout", role: "status" });
  let chart: Chart | null = null;
  const drawn = fluid((width) => {
    chart = new Chart(run, filter, marked, readout, width);
    return chart.element;
  });
  place.listen(() => chart?.follow());
  const legend = h(
    "ul",
    { class: "legend" },
    ...marked.map((it) =>
      h(
        "li",
        {},
        it.has && sample(it),
        h("a", { href: `#${anchor(run, it.at)}` }, it.finding.cause),
        it.shown && ` (flag ${it.at + 1})`,
      ),
    ),
    marked.length > 0 && h("li", {}, sample(null), "exchanges without a finding"),
    lookups.length > 0 && h("li", {}, sample("lookup"), "look-ups of names"),
  );
  const listed = rows.length < seen ? ` the ${count(rows.length)} longest of ${count(seen)};` : "";
  return h(
    "section",
    { id: `${run.id}over-time` },
    h("h2", {}, "Latency over time"),
    legend,
    h("figure", { class: "over-time" }, drawn),
    readout,
    h(
      "p",
      { class: "note" },
      `Each point is an exchange where it began:${listed} logarithmic time upwards. A flag is where a finding is shown. A point opens its exchange; dragging filters the list by time.`,
    ),
  );
}

function findings(run: Run, rows: Exchange[]): Marked[] {
  const all = run.report.findings.map((finding, at) => {
    const file = (path: string) => run.report.inputs.findIndex((it) => it.path === path);
    const proof = finding.evidence.find((it) => it.kind === "packets");
    const frame: Frame | null = proof?.kind === "packets" ? [file(proof.file), proof.frame] : null;
    const holds = (row: Exchange) =>
      frame !== null &&
      row.first[0] === frame[0] &&
      row.first[1] <= frame[1] &&
      frame[1] <= row.last[1];
    const asks = (it: Lookup) =>
      it.queries.some((query) => query.frame[0] === frame?.[0] && query.frame[1] === frame[1]);
    const shape = SHAPES[at % SHAPES.length]!;
    const own = rows.filter((row) => row.causes.includes(finding.cause));
    const exchange = own.find(holds),
      lookup = run.picture.lookups.find(asks);
    const shown = exchange ? ofExchange(exchange) : lookup && ofLookup(lookup);
    return { finding, at, colour: colour(finding, own), shape, shown, has: own.length > 0 };
  });
  return all.filter((it) => it.has || it.shown);
}

/** The colour of the owner that has most of a finding's time. */
function colour(finding: Finding, rows: Exchange[]): string {
  const owner = finding.owners.find((it) => rows.some((row) => (row.ledger[it] ?? 0) > 0));
  return colourOf(owner ?? finding.owners[0] ?? finding.cause);
}

type Kind = Marked | "lookup" | null;

const point = (of: Kind, x: number, y: number) =>
  of === "lookup"
    ? svg("path", { d: DOT(x, y), class: "point lookup" })
    : svg("path", {
        d: (of?.shape ?? DOT)(x, y),
        class: of ? "point marked" : "point",
        fill: of?.colour ?? null,
      });

const sample = (of: Kind) =>
  svg("svg", { width: 14, height: 14, class: "sample", "aria-hidden": "true" }, point(of, 7, 7));

/** The next number above that has one digit, of 1, 2 and 5. */
function round(value: number): number {
  const power = 10 ** Math.floor(Math.log10(value));
  return [1, 2, 5, 10].find((digit) => digit * power >= value)! * power;
}

class Chart {
  readonly element: SVGSVGElement;
  private readonly span_ns: [number, number];
  private readonly log: [number, number];
  private readonly points: [Exchange, SVGPathElement, number, number][] = [];
  private readonly asked = svg("rect", { class: "asked", y: TOP, height: H - TOP - BOTTOM });
  private began: number | null = null;

  constructor(
    private readonly run: Run,
    private readonly filter: Filter,
    marked: Marked[],
    private readonly readout: HTMLElement,
    private readonly width: number,
  ) {
    const { totals } = run.report,
      { rows } = run.picture.exchanges,
      { lookups } = run.picture;
    const moments = [...rows.map(ofExchange), ...lookups.map(ofLookup)];
    const last_ns = moments.reduce(
      (most, [start_ns]) => Math.max(most, start_ns),
      totals.last_ns - totals.first_ns,
    );
    const first_ns = moments.reduce((least, [start_ns]) => Math.min(least, start_ns), 0);
    this.span_ns = [first_ns, Math.max(last_ns, first_ns + 1)];
    const times = moments.map(([, wall_ns]) => Math.max(wall_ns, 1_000));
    const least = Math.log10(times.reduce((one, other) => Math.min(one, other)) * 0.8);
    const most = Math.log10(times.reduce((one, other) => Math.max(one, other)) * 1.25);
    this.log = [least, Math.max(most, least + 0.4)];
    this.element = svg("svg", {
      viewBox: `0 0 ${width} ${H}`,
      class: "chart",
      role: "img",
      "aria-label": `Latency of ${counted(rows.length, "exchange", "exchanges")} over time; the list of exchanges has the same in words`,
    });
    this.axes();
    this.element.append(this.asked);
    for (const lookup of lookups) {
      const [start_ns, wall_ns] = ofLookup(lookup);
      const mark = point("lookup", this.x(start_ns), this.y(wall_ns));
      mark.append(svg("title", {}, `${lookup.name ?? "look-up"}: ${duration(wall_ns)}`));
      this.element.append(mark);
    }
    // Points of findings lie above the others.
    const of = (row: Exchange) =>
      marked.find((it) => row.causes.includes(it.finding.cause)) ?? null;
    const drawn = rows.map((row) => [row, of(row)] as const);
    for (const [row, its] of [
      ...drawn.filter(([, its]) => !its),
      ...drawn.filter(([, its]) => its).reverse(),
    ]) {
      const [x, y] = [this.x(row.start_ns), this.y(row.wall_ns)];
      const mark = point(its, x, y);
      this.points.push([row, mark, x, y]);
      this.element.append(mark);
    }
    marked.forEach((it) => this.flag(it));
    this.pointer();
    this.follow();
  }

  private x(ns: number): number {
    const [from, to] = this.span_ns;
    return LEFT + ((this.width - LEFT - RIGHT) * (ns - from)) / (to - from);
  }

  private y(ns: number): number {
    const [low, high] = this.log;
    const share = (Math.log10(Math.max(ns, 1_000)) - low) / (high - low);
    return TOP + (H - TOP - BOTTOM) * (1 - share);
  }

  private axes(): void {
    const [low, high] = this.log;
    const digits = high - low > 3 ? [1] : high - low > 1.2 ? [1, 3] : [1, 2, 5];
    for (let power = Math.floor(low); power <= high; power++) {
      for (const digit of digits) {
        const ns = digit * 10 ** power;
        if (Math.log10(ns) < low || Math.log10(ns) > high) continue;
        const y = this.y(ns);
        this.element.append(
          svg("line", { x1: LEFT, x2: this.width - RIGHT, y1: y, y2: y, class: "grid" }),
          svg("text", { x: LEFT - 6, y: y + 4, class: "tick end" }, duration(ns)),
        );
      }
    }
    const [from, to] = this.span_ns;
    const step_ns = round((to - from) / (this.width < 600 ? 3 : 7));
    for (let ns = Math.ceil(from / step_ns) * step_ns; ns <= to; ns += step_ns) {
      const side =
        to - ns < step_ns / 3 ? "tick end" : ns - from < step_ns / 3 ? "tick" : "tick middle";
      this.element.append(
        svg(
          "text",
          { x: this.x(ns), y: H - BOTTOM + 18, class: side },
          ns === 0 ? "0" : duration(ns),
        ),
      );
    }
  }

  /** Marks the exchange that shows a finding. */
  private flag({ at, shown }: Marked): void {
    if (!shown) return;
    const [x, y] = [this.x(shown[0]), this.y(shown[1])];
    this.element.append(
      svg("line", { x1: x, x2: x, y1: TOP - 4, y2: y - 6, class: "flagpole" }),
      svg("circle", { cx: x, cy: TOP - 13, r: 9, class: "flag" }),
      svg("text", { x, y: TOP - 9, class: "flagged middle" }, String(at + 1)),
    );
  }

  /** Shows what the filter asks for. */
  follow(): void {
    const matches = this.filter.matcher();
    for (const [row, mark] of this.points) mark.classList.toggle("out", !matches(row));
    const [from, to] = this.filter.span();
    const isAsked = from !== -Infinity || to !== Infinity;
    this.frame(isAsked ? [from, to] : null);
  }

  private frame(span: [number, number] | null): void {
    const end = (ns: number) => Math.min(Math.max(this.x(ns), LEFT), this.width - RIGHT);
    const [from, to] = span ? [end(span[0]), end(span[1])] : [0, 0];
    this.asked.setAttribute("x", String(from));
    this.asked.setAttribute("width", String(Math.max(to - from, 0)));
  }

  private ns(x: number): number {
    const [from, to] = this.span_ns;
    const share = (x - LEFT) / (this.width - LEFT - RIGHT);
    return from + (to - from) * Math.min(Math.max(share, 0), 1);
  }

  private nearest(x: number, y: number): Exchange | null {
    let best: Exchange | null = null,
      least = NEAR_PX ** 2;
    for (const [row, mark, px, py] of this.points) {
      const distance = (px - x) ** 2 + (py - y) ** 2;
      if (distance <= least && !mark.classList.contains("out")) {
        best = row;
        least = distance;
      }
    }
    return best;
  }

  private pointer(): void {
    const at = (event: PointerEvent): [number, number] => {
      const box = this.element.getBoundingClientRect();
      const scale = this.width / box.width;
      return [(event.clientX - box.left) * scale, (event.clientY - box.top) * scale];
    };
    this.element.addEventListener("pointerdown", (event) => {
      if (event.button !== 0 || event.pointerType === "touch") return;
      this.began = at(event)[0];
      this.element.setPointerCapture(event.pointerId);
    });
    this.element.addEventListener("pointermove", (event) => {
      const [x, y] = at(event);
      if (this.began !== null && Math.abs(x - this.began) > 4) {
        const [one, other] = [this.ns(this.began), this.ns(x)];
        return this.frame([Math.min(one, other), Math.max(one, other)]);
      }
      const row = this.nearest(x, y);
      this.element.classList.toggle("hit", row !== null);
      this.readout.textContent = row
        ? `${(row.start_ns / 1e6).toFixed(3)} ms  ${row.kind || "kind not known"}  ${duration(row.wall_ns)}  ${row.causes.join(", ")}`
        : "";
    });
    this.element.addEventListener("pointerup", (event) => {
      const [x, y] = at(event),
        began = this.began;
      this.began = null;
      if (began !== null && Math.abs(x - began) > 4) {
        const seconds = (ns: number) => (ns / 1e9).toFixed(4).replace(/\.?0+$/, "");
        const ends = [this.ns(began), this.ns(x)].sort((one, other) => one - other);
        return this.filter.set({ from: seconds(ends[0]!), to: seconds(ends[1]!) });
      }
      const row = this.nearest(x, y);
      if (row) show(this.run, row);
    });
    this.element.addEventListener("pointercancel", () => {
      this.began = null;
      this.follow();
    });
  }
}
