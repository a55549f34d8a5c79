/**
 * One take: a source, a connection, and what happens between pressing Start and the final text.
 *
 * States in order: "opening" (the source), "connecting", "listening", "finishing", then "done",
 * "cancelled" (stopped before anything was heard) or "failed".
 */

import { Connection } from "./connection.js";
import { Failure } from "./failures.js";

export class Take {
  /**
   * @param source a Microphone or a Recording
   * @param {{
   *   state: (state: string, detail?: any) => void,
   *   frame: (frame: {bytes: ArrayBuffer, rms: number, peak: number, samples: number}) => void,
   *   characters: (characters: {text: string, time: number}[]) => void,
   *   endpoint: () => void,
   *   pressure: (pressure: string) => void,
   * }} view
   */
  constructor(source, address, view) {
    this.source = source;
    this.address = address;
    this.view = view;
    this.state = "new";
    this.cancelled = new Promise((resolve) => {
      this.cancel = resolve;
    });
  }

  /** Run to the end; every outcome is told to the view as a state, none is thrown. */
  async run() {
    try {
      this.#enter(...(await this.#toTheEnd()));
    } catch (error) {
      this.#enter("failed", error instanceof Failure ? error : new Failure("fault", String(error)));
    } finally {
      this.source.close();
      this.connection?.close();
    }
  }

  /** Finish what was heard, or give up where nothing was yet. */
  stop() {
    if (this.state === "listening") this.source.stop();
    else if (this.state !== "finishing") this.cancel("cancelled");
  }

  async #toTheEnd() {
    this.#enter("opening");
    if ((await this.#unlessCancelled(this.source.open())) === "cancelled") return ["cancelled"];
    this.#enter("connecting");
    this.connection = new Connection(
      this.address,
      (some) => this.view.characters(some),
      () => this.view.endpoint(),
    );
    const { ready, failed } = this.connection;
    const welcome = await this.#unlessCancelled(Promise.race([ready.promise, failed.promise]));
    if (welcome === "cancelled") return ["cancelled"];
    this.#enter("listening", welcome);
    await Promise.race([this.source.deliver((frame) => this.#send(frame)), failed.promise]);
    this.#enter("finishing");
    const final = await this.connection.end();
    this.#enter("done", final);
    if (this.source.lost) throw this.source.lost; // the text stands, and the reason beside it
    return ["ended"];
  }

  async #send(frame) {
    const pressure = this.connection.send(frame.bytes);
    this.view.frame(frame);
    this.view.pressure(this.source.live ? pressure : "ok");
    if (!this.source.live) await this.connection.drained();
  }

  /** Whichever comes first; a promise that loses may still fail, and that is then no news. */
  #unlessCancelled(promise) {
    promise.catch(() => {});
    return Promise.race([promise, this.cancelled]);
  }

  #enter(state, detail) {
    this.state = state;
    this.view.state(state, detail);
  }
}
