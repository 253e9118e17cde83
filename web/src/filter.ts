// Which exchanges are asked for: by endpoint, kind, cause, time, and text. The address of the page has
// it, and the list and the chart over time follow it.

import type { Exchange, Run } from "./data";
import { ends, h } from "./dom";
import * as place from "./place";

const NAMES = ["text", "cause", "end", "kind", "from", "to"] as const;
export type Name = (typeof NAMES)[number];

/** The filter of one run. */
export class Filter {
  constructor(private readonly run: Run) {}

  private key(name: Name): string {
    return this.run.id + name;
  }

  get(name: Name): string {
    return place.value(this.key(name));
  }

  set(values: Partial<Record<Name, string>>, isStep = true): void {
    const keyed = Object.entries(values).map(([name, value]) => [this.key(name as Name), value]);
    place.set(Object.fromEntries(keyed), isStep);
  }

  clear(): void {
    this.set(Object.fromEntries(NAMES.map((name) => [name, ""])));
  }

  isOn(): boolean {
    return NAMES.some((name) => this.get(name) !== "");
  }

  /** Start and end of the time asked for, ns since the first frame. */
  span(): [number, number] {
    const bound = (name: Name, otherwise: number) => {
      const seconds = Number.parseFloat(this.get(name));
      return Number.isFinite(seconds) ? seconds * 1e9 : otherwise;
    };
    return [bound("from", -Infinity), bound("to", Infinity)];
  }

  /** Returns whether an exchange is asked for. */
  matcher(): (row: Exchange) => boolean {
    const [cause, end, kind] = [this.get("cause"), this.get("end"), this.get("kind")];
    const text = this.get("text").trim().toLowerCase();
    const [from_ns, to_ns] = this.span();
    const frame = /^#\d+$/.test(text) ? Number(text.slice(1)) : null;
    return (row) => {
      if (cause !== "" && !row.causes.includes(cause)) return false;
      if (end !== "" && row.server !== end && ends(row.client).address !== end) return false;
      if (kind !== "" && row.kind !== kind) return false;
      if (row.start_ns + row.wall_ns < from_ns || row.start_ns > to_ns) return false;
      if (text === "") return true;
      if (frame !== null) return row.first[1] <= frame && frame <= row.last[1];
      return [row.kind, row.client, row.server, ...row.causes, row.outcome]
        .join(" ")
        .toLowerCase()
        .includes(text);
    };
  }
}

/** Distinct values with their numbers, the most frequent first. */
function tallied(values: string[]): [string, number][] {
  const tally = new Map<string, number>();
  for (const value of values) tally.set(value, (tally.get(value) ?? 0) + 1);
  return [...tally].filter(([value]) => value !== "").sort((one, other) => other[1] - one[1]);
}

const CHOICES_MAX = 200;

/** The controls of a filter over `rows`. */
export function controls(filter: Filter, rows: Exchange[]): HTMLElement {
  const inputs: [Name, HTMLInputElement | HTMLSelectElement][] = [];
  const input = (name: Name, attributes: Record<string, string>) => {
    const element = h("input", {
      ...attributes,
      input: () => filter.set({ [name]: element.value }, false),
    });
    inputs.push([name, element]);
    return element;
  };
  const choose = (name: Name, label: string, groups: [string, [string, number][]][]) => {
    const option = ([value, many]: [string, number]) =>
      h("option", { value }, `${value} (${many})`);
    const element: HTMLSelectElement = h(
      "select",
      { "aria-label": label, change: () => filter.set({ [name]: element.value }) },
      h("option", { value: "" }, label),
      ...groups.map(([group, values]) => {
        const options = values.slice(0, CHOICES_MAX).map(option);
        return groups.length === 1 ? wrapped(options) : h("optgroup", { label: group }, ...options);
      }),
    );
    inputs.push([name, element]);
    return element;
  };
  const clear = h("button", { type: "button", click: () => filter.clear() }, "Clear");
  const element = h(
    "div",
    { class: "controls filter", role: "search", "aria-label": "Filter of exchanges" },
    input("text", {
      type: "search",
      class: "text",
      placeholder: "Search: GET /items, 10.0.0.7:50112, #241",
      "aria-label": "Search exchanges",
      "aria-keyshortcuts": "/",
    }),
    choose("end", "All endpoints", [
      ["servers", tallied(rows.map((row) => row.server))],
      ["clients", tallied(rows.map((row) => ends(row.client).address))],
    ]),
    choose("kind", "All kinds", [["", tallied(rows.map((row) => row.kind))]]),
    choose("cause", "All causes", [["", tallied(rows.flatMap((row) => row.causes))]]),
    h(
      "span",
      { class: "times" },
      input("from", {
        inputmode: "decimal",
        size: "6",
        placeholder: "from",
        "aria-label": "From, s",
      }),
      "–",
      input("to", { inputmode: "decimal", size: "6", placeholder: "to", "aria-label": "To, s" }),
      " s",
    ),
    clear,
  );
  const follow = () => {
    for (const [name, one] of inputs)
      if (one.value !== filter.get(name)) one.value = filter.get(name);
    clear.hidden = !filter.isOn();
  };
  place.listen(follow);
  follow();
  return element;
}

function wrapped(nodes: Node[]): DocumentFragment {
  const fragment = document.createDocumentFragment();
  fragment.append(...nodes);
  return fragment;
}
