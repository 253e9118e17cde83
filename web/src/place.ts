// The state of the page in its address: the section, the open exchange, the filters. A link restores
// it, and the browser's way back undoes it.
//
//   #exchanges?cause=retransmission_timeout&open=exchange-0.17

type Values = Record<string, string>;

/** The section's id, and the values. */
interface Place {
  at: string;
  values: Values;
}

const listeners: (() => void)[] = [];
let place = read();

function read(): Place {
  const [at = "", query = ""] = location.hash.slice(1).split("?");
  return { at: decodeURIComponent(at), values: Object.fromEntries(new URLSearchParams(query)) };
}

function written({ at, values }: Place): string {
  const query = new URLSearchParams(
    Object.entries(values).filter(([, value]) => value !== ""),
  ).toString();
  return `#${encodeURIComponent(at)}${query === "" ? "" : `?${query}`}`;
}

/** The value of `name`; empty if there is none. */
export const value = (name: string): string => place.values[name] ?? "";

/** Calls `listener` when a value has changed. */
export function listen(listener: () => void): void {
  listeners.push(listener);
}

/**
 * Sets values. A step is one that the way back undoes; what is typed replaces what was typed before.
 */
export function set(values: Values, isStep = true): void {
  const next = { at: place.at, values: { ...place.values, ...values } };
  if (written(next) === written(place)) return;
  go(next, isStep);
}

function go(next: Place, isStep: boolean): void {
  place = next;
  if (isStep) history.pushState(null, "", written(next));
  else history.replaceState(null, "", written(next));
  listeners.forEach((listener) => listener());
}

function scroll(): void {
  document.getElementById(place.at)?.scrollIntoView();
}

/** Forgets the listeners of a report that is no longer shown, and with `isNew` its place as well. */
export function reset(isNew: boolean): void {
  listeners.length = 0;
  if (isNew) {
    place = { at: "", values: {} };
    history.replaceState(null, "", location.pathname + location.search);
  }
}

/** Scrolls to the section that the address names. */
export function arrive(): void {
  // Charts have their heights once they were drawn.
  if (place.at !== "") requestAnimationFrame(scroll);
}

addEventListener("popstate", () => {
  const was = place.at;
  place = read();
  listeners.forEach((listener) => listener());
  if (place.at !== was) scroll();
});

// A link within the page keeps the values.
document.addEventListener("click", (event) => {
  const link = event.target instanceof Element ? event.target.closest('a[href^="#"]') : null;
  if (!link || event.ctrlKey || event.metaKey || event.shiftKey) return;
  event.preventDefault();
  const at = link.getAttribute("href")!.slice(1);
  go({ at, values: { ...place.values, open: "" } }, true);
  scroll();
  const aim = document.getElementById(at);
  aim?.setAttribute("tabindex", "-1");
  aim?.focus({ preventScroll: true });
});
