// The languages of the page. Its words are English in the code and become those of another language where
// they are written (`h`, `svg`, `word`), by a table of templates; what was read from a capture has none.

import type { Data, Texts } from "./data";
import { CHINESE } from "./zh";

export type Language = "en" | "zh";

export const LANGUAGES: [Language, string][] = [
  ["en", "English"],
  ["zh", "中文"],
];

interface Pattern {
  form: RegExp;
  text: string;
}

interface Table {
  whole: Map<string, string>;
  patterns: Pattern[];
}

const tables: Record<Language, Table | null> = { en: null, zh: table(CHINESE) };

let language: Language = "en";

/** A table of English templates and those of a language. `{}` stands for a value, which is translated too. */
function table(rows: [string, string][]): Table {
  const isWhole = ([english]: [string, string]) => !english.includes("{}");
  const escaped = (text: string) => text.replace(/[.*+?^${}()|[\]\\]/g, "\\$&");
  const pattern = ([english, text]: [string, string]): Pattern => ({
    form: new RegExp(`^${english.split("{}").map(escaped).join("(.*?)")}$`, "s"),
    text,
  });
  return {
    whole: new Map(rows.filter(isWhole)),
    patterns: rows.filter((row) => !isWhole(row)).map(pattern),
  };
}

/** Returns `text` in the language of the page; itself where the language has no words for it. */
export function word(text: string): string {
  const table = tables[language];
  if (!table || !/[A-Za-z]/.test(text)) return text;
  const whole = table.whole.get(text.trim());
  if (whole !== undefined) return text.replace(text.trim(), () => whole);
  for (const { form, text: translated } of table.patterns) {
    const values = form.exec(text);
    if (!values) continue;
    let at = 1;
    return translated.replace(/\{(\d?)\}/g, (_, number: string) =>
      word(values[number === "" ? at++ : Number(number)] ?? ""),
    );
  }
  return text;
}

/** Makes `to` the language of the page. */
export function speak(to: Language): void {
  language = to;
  document.documentElement.lang = to === "zh" ? "zh-CN" : to;
}

/** The language of the page. */
export const spoken = (): Language => language;

/** The language that the reader has chosen in the browser, if the page has it. */
export function ofBrowser(): Language {
  const ids = navigator.languages.map((it) => it.split("-")[0]!.toLowerCase());
  return ids.find(isLanguage) ?? "en";
}

export const isLanguage = (id: string): id is Language => LANGUAGES.some(([one]) => one === id);

/** Puts the report's texts of the language in the place of the English ones, which JSON always has. */
export function translate(data: Data): void {
  if (language === "en") return;
  for (const run of data.runs) {
    const texts = run.picture.texts?.[language];
    if (texts) put(run, texts);
  }
  const sentence = data.comparison?.sentences?.[language];
  if (data.comparison && sentence !== undefined) data.comparison.sentence = sentence;
}

function put({ report, picture }: Data["runs"][number], texts: Texts): void {
  report.answer = texts.answer;
  report.inputs.forEach((input, at) =>
    input.problems.forEach((it, number) => (it.what = texts.problems[at]?.[number] ?? it.what)),
  );
  const parts = new Map<string, string>();
  report.findings.forEach((finding, at) => {
    const of = texts.findings[at];
    if (!of) return;
    finding.evidence.forEach((it, number) => {
      parts.set(it.what, of.evidence[number] ?? it.what);
      it.what = of.evidence[number] ?? it.what;
    });
    finding.ruled_out.forEach((it, number) => (it.why = of.ruled_out[number] ?? it.why));
    Object.assign(finding, { headline: of.headline, what: of.what, fixes: of.fixes });
  });
  report.observations.forEach((it, at) => (it.what = texts.observations[at] ?? it.what));
  picture.manuals = texts.manuals;
  // A ladder shows frames of the evidence, also those of other connections, in the words of the evidence.
  for (const { ladder } of picture.drawings)
    for (const step of ladder.steps)
      if (step.step === "segment") step.label = parts.get(step.label) ?? step.label;
}
