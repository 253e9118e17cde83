// Elements, and what is written in them. Text from a capture only ever becomes a text node.

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

function set(element: Element, attributes: Attributes): void {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (typeof value === "function") element.addEventListener(name, value);
    else element.setAttribute(name, value === true ? "" : String(value));
  }
}

function add(element: Element, children: Child[]): void {
  for (const child of children) if (child) element.append(child);
}

export function count(value: number): string {
  return Math.round(value)
    .toString()
    .replace(/\B(?=(\d{3})+$)/g, ",");
}

/** Three significant digits with a unit, as the terminal writes them. */
export function duration(ns: number): string {
  if (ns === 0) return "0";
  const [value, unit] =
    ns >= 60e9
      ? [ns / 60e9, "min"]
      : ns >= 1e9
        ? [ns / 1e9, "s"]
        : ns >= 1e6
          ? [ns / 1e6, "ms"]
          : ns >= 1e3
            ? [ns / 1e3, "µs"]
            : [ns, "ns"];
  return `${significant(value)} ${unit}`;
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

export const percent = (share: number): string =>
  share > 0 && share < 0.001
    ? "< 0.1 %"
    : share >= 0.9995 || share === 0
      ? `${Math.round(share * 100)} %`
      : `${(share * 100).toFixed(1)} %`;

export const counted = (many: number, one: string, more: string): string =>
  `${count(many)} ${many === 1 ? one : more}`;

/** `nagle_delayed_ack` as words. */
export const words = (id: string): string => id.replace(/_/g, " ");

/** Says something to everybody, also to a screen reader, for a moment. */
let toast: HTMLElement | null = null;
let hides = 0;
export function say(text: string): void {
  if (!toast) {
    toast = h("div", { class: "toast", role: "status" });
    document.body.append(toast);
  }
  toast.textContent = text;
  toast.classList.add("shown");
  clearTimeout(hides);
  hides = window.setTimeout(() => toast?.classList.remove("shown"), 2_500);
}

export async function copy(text: string): Promise<void> {
  try {
    await navigator.clipboard.writeText(text);
    say(`Copied: ${text}`);
  } catch {
    say(copiedByHand(text) ? `Copied: ${text}` : `Copy this: ${text}`);
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

/** A button that copies `text`. */
export function copier(label: string, text: string, what: string): HTMLButtonElement {
  return h(
    "button",
    {
      type: "button",
      class: "copy",
      title: `Copy: ${text}`,
      "aria-label": `Copy ${what}: ${text}`,
      click: () => void copy(text),
    },
    label,
  );
}

/** The number of a frame, which copies a Wireshark filter that shows it. */
export function frameButton(frame: number, file?: string): HTMLButtonElement {
  const button = copier(`#${frame}`, `frame.number == ${frame}`, "Wireshark filter");
  button.classList.add("frame");
  if (file) button.title += `  (in ${file})`;
  return button;
}

/** A Wireshark filter for a connection, by addresses and ports: these name it in any capture. */
export function flowFilter(client: string, server: string): string {
  const split = (end: string) => {
    const at = end.lastIndexOf(":");
    return { address: end.slice(0, at).replace(/^\[|\]$/g, ""), port: end.slice(at + 1) };
  };
  const [from, to] = [split(client), split(server)];
  const family = from.address.includes(":") ? "ipv6" : "ip";
  return (
    `${family}.addr == ${from.address} && ${family}.addr == ${to.address} && ` +
    `tcp.port == ${from.port} && tcp.port == ${to.port}`
  );
}
