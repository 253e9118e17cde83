// The manuals' Markdown: paragraphs, lists, code, emphasis. They come with the program.

import { h } from "./dom";
import type { Manual } from "./data";

/** Text with `code` and *emphasis*. */
export function inline(text: string): Node[] {
  return text
    .split(/(`[^`]+`|\*[^*\s][^*]*\*)/)
    .filter((part) => part !== "")
    .map((part) => {
      if (part.startsWith("`") && part.length > 2) return h("code", {}, part.slice(1, -1));
      if (part.startsWith("*") && part.length > 2) return h("em", {}, part.slice(1, -1));
      return document.createTextNode(part);
    });
}

export function manual(of: Manual): HTMLElement {
  const article = h("div", { class: "manual" });
  for (const section of of.sections) {
    article.append(h("h4", {}, section.heading));
    if (section.items) article.append(list(section.items));
    for (const block of (section.text ?? "").split(/\n\n+/))
      if (block !== "") article.append(one(block));
  }
  return article;
}

const list = (items: string[]) => h("ul", {}, ...items.map((item) => h("li", {}, ...inline(item))));

function one(block: string): HTMLElement {
  if (!block.startsWith("- ")) return h("p", {}, ...inline(block.replace(/\n/g, " ")));
  return list(
    block
      .split(/^- /m)
      .filter((item) => item !== "")
      .map((item) => item.replace(/\n/g, " ").trim()),
  );
}
