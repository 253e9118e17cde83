// The messages between the page and its worker.

/** What is asked for, as `Asked` in crates/browser reads it. */
export interface Asked {
  files: [name: string, bytes: number][];
  filter: string;
  min_share: string;
  vantages: number | null;
  show_values: boolean;
  seed: number;
  language: string;
}

export interface Work {
  core: WebAssembly.Module;
  asked: Asked;
  files: File[];
}

/** The first pass analyses, the second draws; each reads all files. */
export const PASSES = 2;

export type Told =
  | { kind: "progress"; pass: number; consumed_bytes: number }
  | { kind: "report"; json: string; page: string; memory_bytes: number }
  | { kind: "error"; text: string }
  | { kind: "fault"; text: string }
  | { kind: "memory"; memory_bytes: number };
