/**
 * One take: a source, a stream, and what happens between pressing Start and the final text.
 *
 * States in order: "opening" (the source), "connecting", "listening" and "paused" in turn,
 * "finishing", then "done", "cancelled" (stopped before anything was heard) or "failed".
 */

import { Failure } from "./failures.js";
import { Stream } from "./stream.js";

/** The address of the stream beside the page. */
export function streamAddress(page) {
  const address = new URL("v1/stream", page);
  address.protocol = address.protocol === "https:" ? "wss:" : "ws:";
  address.search = "";
  address.hash = "";
  return address;
}

export class Take {
  #stop = () => {};

  /**
   * @param source a Capture or a Recording
   * @param {{
   *   state: (state: string, detail?: any) => void,
   *   link: (state: import("./stream.js").State, reason?: Failure) => void,
   *   frame: (frame: import("./frames.js").Frame) => void,
   *   characters: (characters: import("./stream.js").Character[]) => void,
   *   endpoint: () => void,
   *   restarted: () => void,
   * }} view
   * @param {{key?: string, phrases?: string[]}} asked the server's key; what is likely to be said
   */
  constructor(source, address, view, asked = {}) {
    this.source = source;
    this.view = view;
    this.state = "new";
    this.cancelled = new Promise((resolve) => {
      this.cancel = resolve;
    });
    this.stopped = new Promise((resolve) => {
      this.#stop = resolve;
    });
    this.stream = new Stream(address, {
      characters: (some) => view.characters(some),
      endpoint: () => view.endpoint(),
      restarted: () => view.restarted(),
      state: (state, reason) => view.link(state, reason),
    }, asked);
  }

  /** Run to the end; every outcome is told to the view as a state, none is thrown. */
  async run() {
    try {
      this.#enter(...(await this.#toTheEnd()));
    } catch (error) {
      this.#enter("failed", error instanceof Failure ? error : new Failure("fault", String(error)));
    } finally {
      this.source.close();
      this.stream.close();
    }
  }

  /** Finish what was heard; give up where nothing was yet, or where the server is gone. */
  stop() {
    if (this.state === "paused") this.stream.resume(); // its last characters are still to come
    if (this.state === "listening" || this.state === "paused") {
      this.source.stop();
      if (!this.source.live) this.#stop(); // it may wait for a connection that is lost
    } else if (this.state !== "finishing" || this.stream.state === "lost") this.cancel("cancelled");
  }

  /** Hear nothing for a while, or go on. */
  pause() {
    if (this.state === "listening") {
      this.source.pause();
      this.stream.pause().catch(() => {});
      this.#enter("paused");
    } else if (this.state === "paused") {
      this.stream.resume();
      this.source.resume();
      this.#enter("listening");
    }
  }

  async #toTheEnd() {
    this.#enter("opening");
    if ((await this.#unlessCancelled(this.source.open())) === "cancelled") return ["cancelled"];
    this.#enter("connecting");
    const ready = await this.#unlessCancelled(this.stream.open());
    if (ready === "cancelled") return ["cancelled"];
    this.#enter("listening", ready);
    const { failed } = this.stream;
    const delivered = this.source.deliver((frame) => this.#send(frame));
    delivered.catch(() => {}); // where another of these comes first
    await Promise.race([delivered, failed, this.stopped]);
    this.#enter("finishing");
    const final = await this.#unlessCancelled(this.stream.end());
    if (final === "cancelled") throw new Failure("dropped");
    if (this.source.lost) throw this.source.lost; // the text stands, and the reason beside it
    return ["done"];
  }

  async #send(frame) {
    this.view.frame(frame);
    this.stream.send(frame.bytes);
    if (!this.source.live) await this.stream.drained();
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
