// Keys that work in lists, and everywhere.

/** Makes ↑, ↓, Home and End move between the `choice` of each row of `body`. */
export function arrows(body: HTMLElement, choice: string): void {
  body.addEventListener("keydown", (event) => {
    const row = event.target instanceof Element ? event.target.closest("tr") : null;
    if (!row || event.ctrlKey || event.metaKey || event.altKey) return;
    const to: Record<string, Element | null> = {
      ArrowDown: row.nextElementSibling,
      ArrowUp: row.previousElementSibling,
      Home: body.firstElementChild,
      End: body.lastElementChild,
    };
    if (!(event.key in to)) return;
    event.preventDefault();
    to[event.key]?.querySelector<HTMLElement>(choice)?.focus();
  });
}

// `/` goes to the search, as in other tools.
document.addEventListener("keydown", (event) => {
  const isTyping = event.target instanceof Element && event.target.closest("input, select");
  if (event.key !== "/" || isTyping || event.ctrlKey || event.metaKey || event.altKey) return;
  if (document.querySelector("dialog[open]")) return;
  const search = document.querySelector<HTMLInputElement>('input[type="search"]');
  if (!search) return;
  event.preventDefault();
  search.focus();
  search.scrollIntoView({ block: "center" });
});
