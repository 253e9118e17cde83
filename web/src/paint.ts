// What is painted on a graph's canvas beside its lines: silences, segments, a moment.

import type uPlot from "uplot";
import type { Stall } from "./data";
import { duration } from "./dom";
import { colourOf, themed } from "./palette";
import type { Sender, Series, Span } from "./series";

/** Colours of what is drawn, as the style sheet has them for light and dark. */
export interface Inks {
  data: string;
  again: string;
  overtaken: string;
  probe: string;
  acked: string;
  edge: string;
  closed: string;
}

export const inks = (): Inks => ({
  data: themed("--data"),
  again: themed("--again"),
  overtaken: themed("--overtaken"),
  probe: themed("--probe"),
  acked: themed("--acked"),
  edge: themed("--edge"),
  closed: themed("--closed"),
});

/** Silences of pipelined exchanges overlap: those of one owner and cause as one, in time order. */
function joined(stalls: Stall[]): Stall[] {
  const all: Stall[] = [],
    last = new Map<string, Stall>();
  for (const stall of stalls) {
    const name = `${stall.owner} ${stall.cause}`,
      before = last.get(name);
    if (before && stall.start_ms < before.end_ms) {
      before.end_ms = Math.max(before.end_ms, stall.end_ms);
      continue;
    }
    const copy = { ...stall };
    last.set(name, copy);
    all.push(copy);
  }
  return all;
}

/** Silences with an owner, in the owner's colour, named where there is room. */
export function bands(chart: uPlot, stalls: Stall[]): void {
  const { ctx, bbox } = chart;
  ctx.save();
  ctx.beginPath();
  ctx.rect(bbox.left, bbox.top, bbox.width, bbox.height);
  ctx.clip();
  for (const stall of joined(stalls)) {
    const left = chart.valToPos(stall.start_ms, "x", true),
      right = chart.valToPos(stall.end_ms, "x", true);
    if (right < bbox.left || left > bbox.left + bbox.width || right - left < 1) continue;
    ctx.globalAlpha = stall.cause ? 0.2 : 0.1;
    ctx.fillStyle = colourOf(stall.owner);
    ctx.fillRect(left, bbox.top, right - left, bbox.height);
  }
  ctx.restore();
}

/** Writes the owners into their silences; into several of one owner together, where they are narrow. */
export function nameStalls(chart: uPlot, stalls: Stall[], view: Span): void {
  chart.ctx.save();
  const position = (ms: number) => chart.valToPos(ms, "x", true);
  const shown = joined(stalls).filter((it) => it.end_ms > view.from && it.start_ms < view.to);
  // Silences of several owners may overlap, their names must not.
  let free = -Infinity;
  const name = (text: string, left: number, right: number) => {
    if (left < free) left = free;
    if (label(chart, text, left, right)) free = right;
  };
  for (let at = 0; at < shown.length;) {
    const first = shown[at]!;
    let end = at + 1;
    while (end < shown.length && shown[end]!.owner === first.owner) end += 1;
    const run = shown.slice(at, end);
    at = end;
    const texts = run.map((it) => `${it.owner} ${duration((it.end_ms - it.start_ms) * 1e6)}`);
    const fits = run.filter((it, place) =>
      isRoomFor(chart, texts[place]!, position(it.start_ms), position(it.end_ms)),
    );
    if (fits.length > 0 || run.length === 1) {
      run.forEach((it, place) => name(texts[place]!, position(it.start_ms), position(it.end_ms)));
      continue;
    }
    const sum = run.reduce((all, it) => all + it.end_ms - it.start_ms, 0) * 1e6;
    name(
      `${first.owner} ${duration(sum)} in ${run.length} silences`,
      position(first.start_ms),
      position(run[run.length - 1]!.end_ms),
    );
  }
  chart.ctx.restore();
}

/** Segments as bars over the bytes that they carry, and times of a closed window. */
export function segments(chart: uPlot, of: Series, sender: Sender, ink: Inks): void {
  const { ctx, bbox } = chart,
    { points } = of;
  const { min, max } = chart.scales.x!;
  ctx.save();
  ctx.beginPath();
  ctx.rect(bbox.left, bbox.top, bbox.width, bbox.height);
  ctx.clip();
  ctx.lineWidth = 2 * devicePixelRatio;
  for (let at = 0; at < points.size; at++) {
    const time = points.time[at]!;
    if (points.from(at) !== sender || points.len[at] === 0 || time < min! || time > max!) continue;
    const x = chart.valToPos(time, "x", true);
    ctx.strokeStyle = [ink.data, ink.again, ink.overtaken, ink.probe][points.mark(at)] ?? ink.data;
    ctx.beginPath();
    ctx.moveTo(x, chart.valToPos(points.seq(at), "y", true));
    ctx.lineTo(x, chart.valToPos(points.seq(at) + points.len[at]!, "y", true));
    ctx.stroke();
  }
  for (const span of of.zeroWindow) {
    const left = chart.valToPos(span.from, "x", true),
      right = chart.valToPos(span.to, "x", true);
    ctx.fillStyle = ink.closed;
    ctx.fillRect(
      left,
      bbox.top + bbox.height - 8 * devicePixelRatio,
      Math.max(right - left, 2),
      8 * devicePixelRatio,
    );
  }
  ctx.restore();
}

/** The moment that was asked for, ms. */
export function momentLine(chart: uPlot, moment: number): void {
  const { ctx, bbox } = chart,
    x = chart.valToPos(moment, "x", true);
  if (x < bbox.left || x > bbox.left + bbox.width) return;
  ctx.save();
  ctx.strokeStyle = themed("--fg");
  ctx.setLineDash([3, 3]);
  ctx.beginPath();
  ctx.moveTo(x, bbox.top);
  ctx.lineTo(x, bbox.top + bbox.height);
  ctx.stroke();
  ctx.restore();
}

const font = () => `600 ${12 * devicePixelRatio}px system-ui, sans-serif`;

/** The part of a stretch that is in view, and the width of `text`. */
function room(chart: uPlot, text: string, left: number, right: number): [number, number, number] {
  const { ctx, bbox } = chart;
  ctx.font = font();
  return [
    Math.max(left, bbox.left),
    Math.min(right, bbox.left + bbox.width),
    ctx.measureText(text).width,
  ];
}

function isRoomFor(chart: uPlot, text: string, left: number, right: number): boolean {
  const [from, to, width] = room(chart, text, left, right);
  return width + 8 * devicePixelRatio <= to - from;
}

/** Writes `text` between two places, if there is room; returns whether there was. */
function label(chart: uPlot, text: string, left: number, right: number): boolean {
  if (!isRoomFor(chart, text, left, right)) return false;
  const { ctx, bbox } = chart;
  const [from, to, width] = room(chart, text, left, right);
  ctx.globalAlpha = 1;
  ctx.fillStyle = themed("--fg");
  ctx.textBaseline = "top";
  ctx.textAlign = "left";
  ctx.fillText(text, (from + to - width) / 2, bbox.top + 5 * devicePixelRatio);
  return true;
}
