// Graphs of one connection: time and sequence, window, round trips, throughput; one time axis for all.

import uPlot from "uplot";
import type { RawGraphs } from "./data";
import { bytes, copy, count, duration, frameFilter, h, rate } from "./dom";
import { bands, inks, momentLine, nameStalls, segments } from "./paint";
import { word } from "./language";
import { themed } from "./palette";
import {
  busier,
  describe,
  series,
  throughput,
  type Column,
  type Sender,
  type Series,
  type Span,
} from "./series";

/** A part of the whole that no zoom goes below. */
const ZOOM_MAX = 1e-6;

/** Graphs that are shown, by what can be asked of them from elsewhere on the page. */
export interface Graphs {
  element: HTMLElement;
  show(ms: number): void;
  rebuild(): void;
}

/** Client and server of a connection. */
interface Between {
  client: string;
  server: string;
}

/**
 * The graphs of a connection; `name` tells its cursors from those of others, `file` names the file with
 * that index.
 */
export function graphs(
  raw: RawGraphs,
  between: Between,
  name: string,
  file: (at: number) => string | undefined,
): Graphs {
  return new Board(raw, between, name, file);
}

class Board implements Graphs {
  readonly element = h("div", { class: "graphs" });
  private readonly plots = h("div", {
    class: "plots",
    tabindex: 0,
    role: "group",
    "aria-label":
      "Graphs of the connection. Arrow keys move, plus and minus zoom, 0 shows all, Home shows the exchange.",
  });
  private readonly readout = h("p", { class: "readout" });
  private charts: uPlot[] = [];
  private data: Series;
  private sender: Sender;
  private readonly all: Span;
  private readonly exchange: Span;
  private view: Span;
  private busy = false;
  private moment: number | null = null;
  private ink = inks();

  constructor(
    private readonly raw: RawGraphs,
    private readonly between: Between,
    private readonly name: string,
    private readonly file: (at: number) => string | undefined,
  ) {
    this.sender = busier(raw);
    this.data = series(raw, this.sender);
    const { time } = this.data;
    const first = time[0] ?? 0,
      last = time[time.length - 1] ?? 1;
    const margin = Math.max((last - first) * 0.02, 0.01);
    this.all = { from: first - margin, to: last + margin };
    const [from, to] = raw.exchange_ms;
    const around = Math.max((to - from) * 0.08, 0.02);
    this.exchange = { from: from - around, to: to + around };
    this.view = this.exchange;
    this.element.append(this.controls(), this.readout, this.plots, this.notes());
    this.plots.addEventListener("keydown", (event) => this.key(event));
    this.plots.addEventListener("wheel", (event) => this.wheel(event), { passive: false });
    new ResizeObserver(() => this.resize()).observe(this.plots);
  }

  show(ms: number): void {
    this.moment = this.raw.exchange_ms[0] + ms;
    const width = Math.min(this.view.to - this.view.from, this.exchange.to - this.exchange.from);
    this.look({ from: this.moment - width / 2, to: this.moment + width / 2 });
    this.element.scrollIntoView({ block: "nearest" });
  }

  rebuild(): void {
    this.charts.forEach((chart) => chart.destroy());
    this.charts = [];
    this.plots.replaceChildren();
    if (this.plots.clientWidth > 0) this.build();
  }

  private controls(): HTMLElement {
    const button = (label: string, title: string, does: () => void) =>
      h("button", { type: "button", title, click: does }, label);
    const choice = h(
      "select",
      {
        "aria-label": "Whose data is shown",
        change: () => this.choose(choice.value === "1" ? 1 : 0),
      },
      h("option", { value: "1" }, "server → client"),
      h("option", { value: "0" }, "client → server"),
    );
    choice.value = String(this.sender);
    return h(
      "div",
      { class: "controls", role: "toolbar", "aria-label": "Graphs" },
      choice,
      button("The stall", "The longest silence of the exchange", () => this.look(this.stall())),
      button("The exchange", "The exchange that the ladder shows", () => this.look(this.exchange)),
      button("All", "The whole connection", () => this.look(this.all)),
      button("←", "Earlier", () => this.move(-0.25)),
      button("→", "Later", () => this.move(0.25)),
      button("+", "Zoom in", () => this.zoom(0.5)),
      button("−", "Zoom out", () => this.zoom(2)),
      h(
        "span",
        { class: "hint" },
        "drag to zoom, Ctrl + wheel zooms, Shift + wheel moves, click copies a frame's filter",
      ),
    );
  }

  private notes(): HTMLElement {
    const [before, behind] = this.raw.left_out;
    const text =
      before + behind === 0
        ? ""
        : `Drawn are ${count(this.data.points.size)} segments in one part of the connection; ${count(before)} before and ${count(behind)} behind them are left out. `;
    return h(
      "p",
      { class: "note" },
      `${text}Sequence numbers are relative, as Wireshark shows them. The limit is estimated: what was in flight when the sender stopped though it had more to send.`,
    );
  }

  private isNarrow(): boolean {
    return this.plots.clientWidth < 500;
  }

  private stall(): Span {
    const [from, to] = this.raw.exchange_ms;
    const within = this.data.stalls.filter((it) => it.end_ms > from && it.start_ms < to);
    const longest = within.reduce<Span | null>(
      (most, it) =>
        most === null || it.end_ms - it.start_ms > most.to - most.from
          ? { from: it.start_ms, to: it.end_ms }
          : most,
      null,
    );
    if (longest === null) return this.exchange;
    const margin = (longest.to - longest.from) * 0.25;
    return { from: longest.from - margin, to: longest.to + margin };
  }

  private choose(sender: Sender): void {
    this.sender = sender;
    this.data = series(this.raw, sender);
    this.rebuild();
  }

  private look(view: Span): void {
    const least = (this.all.to - this.all.from) * ZOOM_MAX;
    const width = Math.min(Math.max(view.to - view.from, least), this.all.to - this.all.from);
    const from = Math.min(Math.max(view.from, this.all.from), this.all.to - width);
    this.view = { from, to: from + width };
    this.busy = true;
    for (const chart of this.charts)
      chart.setScale("x", { min: this.view.from, max: this.view.to });
    this.measure();
    this.busy = false;
  }

  private move(by: number): void {
    const width = this.view.to - this.view.from;
    this.look({ from: this.view.from + width * by, to: this.view.to + width * by });
  }

  private zoom(factor: number, around = (this.view.from + this.view.to) / 2): void {
    this.look({
      from: around - (around - this.view.from) * factor,
      to: around + (this.view.to - around) * factor,
    });
  }

  private key(event: KeyboardEvent): void {
    const does: Record<string, () => void> = {
      ArrowLeft: () => this.move(-0.25),
      ArrowRight: () => this.move(0.25),
      "+": () => this.zoom(0.5),
      "=": () => this.zoom(0.5),
      "-": () => this.zoom(2),
      "0": () => this.look(this.all),
      Home: () => this.look(this.exchange),
      End: () => this.look(this.stall()),
    };
    const action = does[event.key];
    if (!action || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    action();
  }

  private wheel(event: WheelEvent): void {
    if (!event.ctrlKey && !event.shiftKey) return;
    event.preventDefault();
    const turned = event.deltaY || event.deltaX;
    const chart = this.charts[0];
    if (event.shiftKey || !chart) return this.move(Math.sign(turned) * 0.1);
    this.zoom(
      turned > 0 ? 1.25 : 0.8,
      chart.posToVal(event.clientX - chart.over.getBoundingClientRect().left, "x"),
    );
  }

  private resize(): void {
    const width = this.plots.clientWidth;
    if (width === 0) return;
    if (this.charts.length === 0) this.build();
    else
      for (const chart of this.charts)
        if (chart.width !== width) chart.setSize({ width, height: chart.height });
  }

  private measure(): void {
    const chart = this.charts[3];
    if (chart) {
      chart.setData(throughput(this.data, this.sender, this.view) as uPlot.AlignedData, false);
      chart.setScale("x", { min: this.view.from, max: this.view.to });
    }
  }

  private build(): void {
    this.ink = inks();
    const { data, ink } = this;
    const bytesAxis = (_: uPlot, values: number[]) => values.map((value) => bytes(value));
    this.charts = [
      this.chart(
        "Time and sequence",
        300,
        [data.time, ...data.sent, data.acked, data.edge],
        [
          dots("data", ink.data, 3),
          dots("sent again", ink.again, 9),
          dots("out of order", ink.overtaken, 8),
          dots("probe", ink.probe, 8),
          line("acknowledged", ink.acked),
          { ...line("right edge of the window", ink.edge, [6, 4]), auto: false },
        ],
        bytesAxis,
        (chart) => {
          segments(chart, this.data, this.sender, this.ink);
          nameStalls(chart, this.data.stalls, this.view);
        },
      ),
      this.chart(
        "Window",
        180,
        [data.time, data.window, data.flight, data.limit],
        [
          line("advertised window", ink.edge, [6, 4]),
          line("flight size", ink.data),
          dots("limit (estimated)", ink.again, 7),
        ],
        bytesAxis,
      ),
      this.chart(
        "Round trip, from here to the receiver",
        140,
        [data.rtt.time, data.rtt.ms],
        [dots("round trip", ink.acked, 5)],
        (_, values) => values.map((value) => duration(value * 1e6)),
      ),
      this.chart(
        "Throughput, without what was sent again",
        140,
        throughput(data, this.sender, this.view),
        [line("throughput", ink.data)],
        (_, values) => values.map((value) => rate(value)),
      ),
    ];
    this.look(this.view);
  }

  private chart(
    title: string,
    height: number,
    data: (ArrayLike<number> | Column)[],
    lines: uPlot.Series[],
    values: uPlot.Axis.DynamicValues,
    draws?: (chart: uPlot) => void,
  ): uPlot {
    const ink = themed("--dim"),
      grid = { stroke: themed("--grid"), width: 1 };
    const holder = captioned(title, lines, draws ? this.ink.closed : null);
    this.plots.append(holder);
    const said = `${title} of the connection between ${this.between.client} and ${this.between.server}`;
    const chart = new uPlot(
      {
        width: this.plots.clientWidth,
        height,
        legend: { show: false },
        padding: [8, 12, 0, 0],
        scales: {
          x: { time: false, range: (_, min, max) => [min, max] },
          y: { range: (_, min, max) => spread(min, max) },
        },
        series: [{ label: "time" }, ...lines],
        axes: [
          {
            stroke: ink,
            grid,
            ticks: grid,
            values: (_, at) => at.map((ms) => clock(ms, this.view)),
          },
          { stroke: ink, grid, ticks: grid, size: this.isNarrow() ? 78 : 92, values },
        ],
        cursor: {
          sync: { key: this.name, scales: ["x", null] },
          drag: { x: true, y: false, dist: 4 },
          points: { show: false },
        },
        hooks: {
          setScale: [
            (_, name) => {
              if (name === "x") this.follow(chart);
            },
          ],
          drawClear: [(of) => bands(of, this.data.stalls)],
          draw: [
            (of) => {
              draws?.(of);
              if (this.moment !== null) momentLine(of, this.moment);
            },
          ],
          setCursor: [(of) => this.read(of)],
        },
      },
      data as uPlot.AlignedData,
      holder,
    );
    chart.root.setAttribute("role", "img");
    chart.root.setAttribute("aria-label", word(said));
    this.clicks(chart);
    return chart;
  }

  /** A zoom in one graph is one in all. */
  private follow(chart: uPlot | undefined): void {
    if (this.busy || !chart || this.charts.length < 4) return;
    const { min, max } = chart.scales.x!;
    if (min === undefined || max === undefined || min === null || max === null) return;
    if (Math.abs(min - this.view.from) + Math.abs(max - this.view.to) < 1e-9) return;
    queueMicrotask(() => this.look({ from: min, to: max }));
  }

  private clicks(chart: uPlot): void {
    let down = 0;
    chart.over.addEventListener("mousedown", (event) => {
      down = event.clientX;
    });
    chart.over.addEventListener("click", (event) => {
      const at = this.pointed(chart);
      if (Math.abs(event.clientX - down) < 4 && at !== null) {
        void copy(frameFilter(at), this.file(this.fileAt(at)));
      }
    });
    chart.over.addEventListener("dblclick", () => this.look(this.exchange));
  }

  private fileAt(frame: number): number {
    const { points } = this.data;
    return points.file(points.frame.indexOf(frame));
  }

  /** The frame under the cursor. */
  private pointed(chart: uPlot): number | null {
    const at = chart.cursor.idx;
    if (at === null || at === undefined) return null;
    if (chart === this.charts[2]) return this.data.rtt.frame[at] ?? null;
    return chart === this.charts[3] ? null : (this.data.points.frame[at] ?? null);
  }

  private read(chart: uPlot): void {
    const at = chart.cursor.idx;
    if (chart !== this.charts[0] || at === null || at === undefined || this.data.points.size <= at)
      return;
    this.readout.textContent = `#${this.data.points.frame[at]}  ${this.data.time[at]!.toFixed(3)} ms  ${describe(this.data.points, at)}`;
  }
}

/** A place for a graph, with the key to its lines; `closed` is the colour of a closed window. */
function captioned(title: string, lines: uPlot.Series[], closed: string | null): HTMLElement {
  const keys = lines.map((one) => key(String(one.label), String(one.stroke)));
  const last = closed === null ? null : key("window closed", closed);
  return h("figure", { class: "plot" }, h("figcaption", {}, h("b", {}, title), ...keys, last));
}

function line(label: string, stroke: string, dash?: number[]): uPlot.Series {
  const paths = uPlot.paths.stepped!({ align: 1 });
  const points = { show: false };
  return { label, stroke, width: 1.5, paths, spanGaps: true, points, ...(dash ? { dash } : {}) };
}

function dots(label: string, stroke: string, size: number): uPlot.Series {
  const points = { show: true, size, fill: stroke, width: 1 };
  return { label, stroke, paths: () => null, points };
}

function key(name: string, colour: string): HTMLElement {
  const swatch = h("span", { class: "swatch" });
  swatch.style.backgroundColor = colour;
  return h("span", { class: "key" }, swatch, name);
}

function spread(min: number | null, max: number | null): [number, number] {
  if (min === null || max === null) return [0, 1];
  const margin = (max - min) * 0.06 || Math.max(max * 0.06, 1);
  return [min >= 0 && min < margin * 4 ? Math.max(0, min - margin) : min - margin, max + margin];
}

/** Time since the capture began, with as many digits as the view needs. */
function clock(ms: number, view: Span): string {
  const width = view.to - view.from;
  if (width > 20_000) return `${(ms / 1e3).toFixed(0)} s`;
  if (width > 2_000) return `${(ms / 1e3).toFixed(1)} s`;
  return `${ms.toFixed(width > 50 ? 0 : width > 5 ? 1 : 3)} ms`;
}
