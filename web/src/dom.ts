// Elements, and what is written in them. Text from a capture only ever becomes a text node. Words of the page
// are written in its language.

import { word } from "./language";

type Child = Node | string | null | undefined | false;
type Attributes = Record<string, string | number | boolean | null | undefined | EventListener>;

export function h<K extends keyof HTMLElementTagNameMap>(
  tag: K,
  attributes: Attributes = {},
  ...children: Child[]
): HTMLElementTagNameMap[K] {
  const element = document.createElement(tag);
  set(element, attributes);
  add(element, children);
  return element;
}

export function svg<K extends keyof SVGElementTagNameMap>(
  tag: K,
  attributes: Attributes = {},
  ...children: Child[]
): SVGElementTagNameMap[K] {
  const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
  set(element, attributes);
  add(element, children);
  return element;
}

/** Attributes that are read by people. */
const SAID = new Set(["title", "aria-label", "placeholder", "label"]);

function set(element: Element, attributes: Attributes): void {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (typeof value === "function") element.addEventListener(name, value);
    else if (value === true) element.setAttribute(name, "");
    else element.setAttribute(name, SAID.has(name) ? word(String(value)) : String(value));
  }
}

function add(element: Element, children: Child[]): void {
  for (const child of children)
    if (child) element.append(typeof child === "string" ? word(child) : child);
}

export function count(value: number): string {
  return Math.round(value)
    .toString()
    .replace(/\B(?=(\d{3})+$)/g, ",");
}

const SECOND = 1e9,
  MINUTE = 60 * SECOND,
  HOUR = 60 * MINUTE;

/** Three significant digits with a unit, as the terminal writes them (`units::duration`). */
export function duration(ns: number): string {
  if (ns < 1e3) return `${Math.round(ns)} ns`;
  // The next unit begins where three digits would be rounded up to 1000.
  if (ns < 999_500) return scaled(ns / 1e3, "µs");
  if (ns < 999_500_000) return scaled(ns / 1e6, "ms");
  if (ns < 120 * SECOND) return scaled(ns / SECOND, "s");
  if (ns < HOUR) return `${Math.floor(ns / MINUTE)} min ${Math.floor((ns % MINUTE) / SECOND)} s`;
  if (ns < 48 * HOUR) return `${Math.floor(ns / HOUR)} h ${Math.floor((ns % HOUR) / MINUTE)} min`;
  return `${count(Math.floor(ns / HOUR / 24))} d ${Math.floor(ns / HOUR) % 24} h`;
}

function scaled(value: number, unit: string): string {
  const digits = value < 9.995 ? 2 : value < 99.95 ? 1 : 0;
  return `${value.toFixed(digits).replace(/\.0+$/, "")} ${unit}`;
}

/** An interval in one unit, rounded outward: `0.3–1.4 ms`. */
export function range(least: number, most: number): string {
  const [unit, name] =
    most >= 7200e9
      ? [60e9, "min"]
      : most >= 1e9
        ? [1e9, "s"]
        : most >= 1e6
          ? [1e6, "ms"]
          : [1e3, "µs"];
  const steps = most < 10 * unit ? 10 : 1;
  const low = Math.floor((least / unit) * steps) / steps,
    high = Math.ceil((most / unit) * steps) / steps;
  return low === high ? `${high} ${name}` : `${low}–${high} ${name}`;
}

export function bytes(value: number): string {
  if (value < 10_000) return `${count(value)} B`;
  const [scaled, unit] =
    value >= 1e9 ? [value / 1e9, "GB"] : value >= 1e6 ? [value / 1e6, "MB"] : [value / 1e3, "kB"];
  return `${significant(scaled)} ${unit}`;
}

export function rate(bitsPerSecond: number): string {
  const [scaled, unit] =
    bitsPerSecond >= 1e9
      ? [bitsPerSecond / 1e9, "Gbit/s"]
      : bitsPerSecond >= 1e6
        ? [bitsPerSecond / 1e6, "Mbit/s"]
        : bitsPerSecond >= 1e3
          ? [bitsPerSecond / 1e3, "kbit/s"]
          : [bitsPerSecond, "bit/s"];
  return `${significant(scaled)} ${unit}`;
}

function significant(value: number): string {
  if (value === 0) return "0";
  if (value >= 100) return count(value);
  return value >= 10 ? value.toFixed(1) : value.toFixed(2);
}

/** A share, as the terminal writes it (`units::share`). */
export function percent(share: number): string {
  const value = Math.min(Math.max(share, 0), 1) * 100;
  if (value === 0) return "0 %";
  if (value < 0.1) return "< 0.1 %";
  if (value < 9.95) return `${value.toFixed(1)} %`;
  if (value < 99.5) return `${value.toFixed(0)} %`;
  return value < 100 ? `${Math.min(value, 99.9).toFixed(1)} %` : "100 %";
}

export const counted = (many: number, one: string, more: string): string =>
  `${count(many)} ${many === 1 ? one : more}`;

/** Says something to everybody, also to a screen reader, for a moment. */
let toast: HTMLElement | null = null;
let hides = 0;
export function say(text: string): void {
  if (!toast) {
    toast = h("div", { class: "toast", role: "status" });
    document.body.append(toast);
  }
  toast.textContent = word(text);
  toast.classList.add("shown");
  clearTimeout(hides);
  hides = window.setTimeout(() => toast?.classList.remove("shown"), 2_500);
}

/** Copies `text`, and says so; `of` names what it is for. */
export async function copy(text: string, of = ""): Promise<void> {
  const what = `${of === "" ? "" : ` for ${of}`}: ${text}`;
  try {
    await navigator.clipboard.writeText(text);
    say(`Copied${what}`);
  } catch {
    say(copiedByHand(text) ? `Copied${what}` : `Copy this${what}`);
  }
}

/** For browsers without a clipboard for pages from disk. */
function copiedByHand(text: string): boolean {
  const area = h("textarea", { readonly: true, "aria-hidden": "true" });
  area.value = text;
  document.body.append(area);
  area.select();
  const done = document.execCommand("copy");
  area.remove();
  return done;
}

/** A button that copies `text`, which is `what`; `of` names the file that it is for. */
export function copier(label: string, text: string, what: string, of = ""): HTMLButtonElement {
  const whole = `Copy ${what}${of === "" ? "" : ` for ${of}`}: ${text}`;
  return h(
    "button",
    {
      type: "button",
      class: "copy",
      title: whole,
      "aria-label": `${label}: ${whole}`,
      "data-copy": text,
      click: () => void copy(text, of),
    },
    label,
  );
}

/** The Wireshark filter of a frame. */
export const frameFilter = (frame: number): string => `frame.number == ${frame}`;

/** The number of a frame, which copies a Wireshark filter that shows it, and names its file. */
export function frameButton(frame: number, file: string | undefined): HTMLButtonElement {
  const button = copier(`#${frame}`, frameFilter(frame), "the Wireshark filter", file);
  button.classList.add("frame");
  return button;
}

/**
 * A table whose cells know the names of their columns: on a narrow screen each row is a card, in which
 * they stand before the values.
 */
export function table(
  attributes: Attributes,
  heads: (string | HTMLElement)[],
  rows: HTMLTableRowElement[],
): HTMLElement {
  const names = heads.map((it) => (typeof it === "string" ? it : it.textContent));
  const element = h(
    "table",
    { role: "table", ...attributes },
    h(
      "thead",
      { role: "rowgroup" },
      h(
        "tr",
        { role: "row" },
        ...heads.map((it) =>
          typeof it === "string" ? h("th", { scope: "col", role: "columnheader" }, it) : it,
        ),
      ),
    ),
    h("tbody", { role: "rowgroup" }, ...rows.map((row) => named(row, names))),
  );
  return h("div", { class: "scroll" }, element);
}

/** Puts the names of the columns on the cells of a row. */
export function named(row: HTMLTableRowElement, names: (string | null)[]): HTMLTableRowElement {
  // Roles tell a screen reader that these are rows and cells, also where CSS shows them as blocks.
  row.setAttribute("role", "row");
  [...row.cells].forEach((cell, at) => {
    cell.setAttribute("role", cell.tagName === "TH" ? "rowheader" : "cell");
    if (names[at]) cell.dataset["label"] = names[at]!;
  });
  return row;
}

/** A chart that is drawn anew for each width that it is given. */
export function fluid(draw: (width: number) => Element): HTMLElement {
  const box = h("div", { class: "fluid" });
  let drawn = 0;
  const fit = () => {
    const width = Math.round(box.clientWidth);
    if (width === 0 || width === drawn) return;
    drawn = width;
    box.replaceChildren(draw(width));
  };
  new ResizeObserver(fit).observe(box);
  return box;
}

/** Text as a word of a shell's command line. */
export const quoted = (text: string): string =>
  /^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replace(/'/g, "'\\''")}'`;

/** Address and port of an endpoint. */
export function ends(endpoint: string): { address: string; port: string } {
  const at = endpoint.lastIndexOf(":");
  return { address: endpoint.slice(0, at).replace(/^\[|\]$/g, ""), port: endpoint.slice(at + 1) };
}

/** A Wireshark filter for a connection, by addresses and ports: these name it in any capture. */
export function flowFilter(client: string, server: string): string {
  const [from, to] = [ends(client), ends(server)];
  const family = from.address.includes(":") ? "ipv6" : "ip";
  return (
    `${family}.addr == ${from.address} && ${family}.addr == ${to.address} && ` +
    `tcp.port == ${from.port} && tcp.port == ${to.port}`
  );
}
