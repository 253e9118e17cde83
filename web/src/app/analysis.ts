// An analysis in a worker of its own, which can be ended at any time.

import { bytes } from "../data";
import type { Asked, Told, Work } from "./messages";

/** The worker's script, which build.mjs puts here. */
declare const WORKER: string;

/** What stands in the page as gzip in base64. */
export async function unpacked(id: string): Promise<ArrayBuffer> {
  const stored = bytes(document.getElementById(id)!.textContent ?? "");
  const stream = new Blob([stored]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new Response(stream).arrayBuffer();
}

let core: Promise<WebAssembly.Module> | null = null;

/** An analysis in progress. */
export class Analysis {
  #worker: Worker | null = null;
  #isOver = false;

  constructor(files: File[], asked: Omit<Asked, "files" | "seed">, tell: (told: Told) => void) {
    void this.#begin(files, asked, (told) => {
      if (this.#isOver) return;
      if (told.kind !== "progress") this.end();
      tell(told);
    });
  }

  async #begin(
    files: File[],
    asked: Omit<Asked, "files" | "seed">,
    tell: (told: Told) => void,
  ): Promise<void> {
    try {
      core ??= unpacked("core").then((code) => WebAssembly.compile(code));
      const compiled = await core;
      if (this.#isOver) return;
      const script = URL.createObjectURL(new Blob([WORKER], { type: "text/javascript" }));
      const worker = new Worker(script);
      this.#worker = worker;
      worker.onmessage = ({ data }: MessageEvent<Told>) => tell(data);
      worker.onerror = ({ message }) => tell({ kind: "fault", text: message });
      const seed = crypto.getRandomValues(new Uint32Array(1))[0]!;
      const named = files.map((file): [string, number] => [file.name, file.size]);
      const work: Work = { core: compiled, asked: { ...asked, files: named, seed }, files };
      worker.postMessage(work);
      URL.revokeObjectURL(script);
    } catch (error) {
      tell({ kind: "fault", text: String(error) });
    }
  }

  /** Ends it, whatever it is doing. */
  end(): void {
    this.#isOver = true;
    this.#worker?.terminate();
  }
}
