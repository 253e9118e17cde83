// Runs the analysis beside the page: reads the files in pieces and provides the imports of
// crates/browser/src/abi.rs.

import type { Told, Work } from "./messages";

// Of the library for workers, which cannot be had beside that for pages.
declare class FileReaderSync {
  readAsArrayBuffer(blob: Blob): ArrayBuffer;
}
const scope = self as unknown as {
  postMessage(told: Told): void;
  onmessage: ((event: MessageEvent<Work>) => void) | null;
};

interface Core {
  memory: WebAssembly.Memory;
  tcpwhy_room(bytes: number): number;
  tcpwhy_report(asked: number, bytes: number): void;
}

/** Least time between two reports of progress, ms. */
const PROGRESS_MS = 100;

/**
 * Numbers that each read leaves behind. Buffers of files are outside of the heap and hardly make
 * Chromium collect garbage while the analysis runs: a capture of 1.2 GB took 1.1 GB, with these 0.14.
 */
const LITTER = 1 << 14;

/** Parts of the answer, as `Part` in abi.rs numbers them. */
const DOCUMENT = 0,
  PAGE = 1,
  ERROR = 2,
  PANIC = 3;

scope.onmessage = ({ data: { core, asked, files } }) => {
  const reader = new FileReaderSync();
  const answer: string[] = [];
  let litter: number[] = [];
  let isFull = false,
    shown_ms = 0;
  const imports = {
    read(index: number, offset: number, to: number, bytes: number): number {
      try {
        const part = reader.readAsArrayBuffer(files[index]!.slice(offset, offset + bytes));
        new Uint8Array(run.memory.buffer, to, part.byteLength).set(new Uint8Array(part));
        litter = new Array<number>(LITTER).fill(bytes);
        return part.byteLength;
      } catch {
        return -1;
      }
    },
    progress(pass: number, consumed_bytes: number): void {
      const now_ms = performance.now();
      if (now_ms - shown_ms < PROGRESS_MS) return;
      shown_ms = now_ms;
      scope.postMessage({ kind: "progress", pass, consumed_bytes });
    },
    answer(part: number, text: number, bytes: number): void {
      answer[part] = new TextDecoder().decode(
        new Uint8Array(run.memory.buffer, text >>> 0, bytes >>> 0),
      );
    },
    memory_is_full(): void {
      isFull = true;
    },
  };
  const run = new WebAssembly.Instance(core, { page: imports }).exports as unknown as Core;
  try {
    const text = new TextEncoder().encode(JSON.stringify(asked));
    const room = run.tcpwhy_room(text.length);
    new Uint8Array(run.memory.buffer, room, text.length).set(text);
    run.tcpwhy_report(room, text.length);
  } catch (trap) {
    answer[PANIC] ??= String(trap);
  }
  litter.length = 0;
  const memory_bytes = run.memory.buffer.byteLength;
  if (isFull) scope.postMessage({ kind: "memory", memory_bytes });
  else if (answer[PANIC] !== undefined) scope.postMessage({ kind: "fault", text: answer[PANIC] });
  else if (answer[ERROR] !== undefined) scope.postMessage({ kind: "error", text: answer[ERROR] });
  else {
    const [json, page] = [answer[DOCUMENT]!, answer[PAGE]!];
    scope.postMessage({ kind: "report", json, page, memory_bytes });
  }
};
