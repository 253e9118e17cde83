// A flow ladder: client left, server right, time downwards, silences to scale, owned and named.

import { fileOf, type Ladder, type Run, type Step } from "./data";
import { duration, frameButton, h } from "./dom";
import { word } from "./language";
import { colourOf, isFault } from "./palette";

/** Heights of all silences together, and of the least of them, in pixels. */
const GAPS_PX = 360,
  GAP_MIN_PX = 24;

/** `faults` are the causes that are faults here; `show` shows a moment of the ladder elsewhere. */
export function ladder(
  of: Ladder,
  faults: Set<string>,
  run: Run,
  show: ((ms: number) => void) | null,
): HTMLElement {
  const gaps = of.steps.filter(
    (step): step is Extract<Step, { step: "gap" }> => step.step === "gap",
  );
  const all = gaps.reduce((sum, gap) => sum + gap.duration_ns, 0);
  const pixels = (ns: number) => Math.max(GAP_MIN_PX, (GAPS_PX * ns) / Math.max(all, 1));
  const rows = of.steps.map((step) => {
    if (step.step === "segment") return segment(step, run, show);
    if (step.step === "mark")
      return h("li", { class: "mark" }, h("span", { class: "label" }, step.label));
    return silence(step, faults, pixels(step.duration_ns));
  });
  return h(
    "div",
    { class: "ladder" },
    h(
      "div",
      { class: "ends", "aria-hidden": "true" },
      h("span", {}, "time"),
      h("span", {}, "client", ` ${of.client}`),
      h("span", {}, "server", ` ${of.server}`),
      h("span", {}, "frame"),
    ),
    h(
      "ol",
      {
        "aria-label": `Exchange between client ${of.client} and server ${of.server}, in the order of time`,
      },
      ...rows,
    ),
    h(
      "p",
      { class: "note" },
      "Heights of silences are to scale, but for the shortest. A frame's number copies a Wireshark filter.",
    ),
  );
}

function segment(
  step: Extract<Step, { step: "segment" }>,
  run: Run,
  show: ((ms: number) => void) | null,
): HTMLElement {
  const again = / again|overtaken|window 0|RST/.test(step.label);
  const time = `${(step.time_ns / 1e6).toFixed(3)} ms`;
  const shown = show
    ? h(
        "button",
        {
          type: "button",
          class: "time",
          title: "Show this moment in the graphs",
          click: () => show(step.time_ns / 1e6),
        },
        time,
      )
    : h("span", { class: "time" }, time);
  return h(
    "li",
    { class: `segment ${step.from}${again ? " odd" : ""}` },
    shown,
    h(
      "span",
      { class: "way" },
      h("span", { class: "visually-hidden" }, `${step.from} sends `),
      h("span", { class: "label" }, step.label),
    ),
    frameButton(step.frame, fileOf(run, step.file ?? 0)),
  );
}

function silence(
  step: Extract<Step, { step: "gap" }>,
  faults: Set<string>,
  height: number,
): HTMLElement {
  const name =
    step.cause && step.cause !== step.owner
      ? `${word(step.owner)} (${step.cause})`
      : word(step.owner);
  const beyond =
    (step.since_ns !== null ? `, since ${(step.since_ns / 1e6).toFixed(3)} ms` : "") +
    (step.until_frame !== null ? `, until #${step.until_frame}` : "");
  const isLost = isFault(step.owner) || (step.cause !== null && faults.has(step.cause));
  const row = h(
    "li",
    { class: isLost ? "gap fault" : "gap" },
    h("span", { class: "band" }, h("b", {}, duration(step.duration_ns)), ` ${name}${beyond}`),
  );
  row.style.minHeight = `${height.toFixed(0)}px`;
  row.style.setProperty("--owner", colourOf(step.owner));
  return row;
}
