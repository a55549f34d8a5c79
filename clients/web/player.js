/** Plays the sound of a take from an instant on. */

import { running } from "./context.js";
import { SAMPLE_RATE } from "./pcm.js";

const PIECE = 5; // seconds that are read at a time
const AHEAD = 2; // seconds before the end of one piece at which the next is read

export class Player {
  #context = null;
  #run = 0; // counts starts, so that an older one notices that it is over

  /** @param {(playing: boolean) => void} onchange */
  constructor(onchange) {
    this.onchange = onchange;
    this.timeline = null; // of the take that plays
  }

  /** The second of the take that is heard now, or null. */
  get time() {
    if (!this.#context || !this.origin) return null;
    const heard = this.#context.currentTime - this.origin.at;
    return this.origin.second + Math.max(0, heard);
  }

  /** Play from a second on, until stop() or the end; throws a Failure where there is no sound output. */
  async play(timeline, second) {
    this.stop();
    this.#run += 1;
    const run = this.#run;
    const context = new AudioContext({ sampleRate: SAMPLE_RATE });
    this.#context = context;
    this.timeline = timeline;
    this.onchange(true);
    try {
      await running(context);
    } catch (failure) {
      if (run !== this.#run) return;
      this.stop();
      throw failure;
    }
    let from = Math.round(Math.max(0, second) * SAMPLE_RATE);
    let at = 0; // where in the context's time the next piece begins
    while (run === this.#run) {
      const samples = await timeline.sound.read(from, from + PIECE * SAMPLE_RATE);
      if (run !== this.#run) return;
      if (!samples.length) break;
      if (!at) {
        at = context.currentTime + 0.05;
        this.origin = { at, second: from / SAMPLE_RATE };
      }
      schedule(context, samples, at);
      from += samples.length;
      at += samples.length / SAMPLE_RATE;
      await until(context, at - AHEAD, () => run !== this.#run);
    }
    await until(context, at, () => run !== this.#run);
    if (run === this.#run) this.stop();
  }

  stop() {
    this.#run += 1;
    if (!this.#context) return;
    this.#context.close();
    this.#context = null;
    this.origin = null;
    this.timeline = null;
    this.onchange(false);
  }
}

function schedule(context, samples, at) {
  const buffer = context.createBuffer(1, samples.length, SAMPLE_RATE);
  buffer.copyToChannel(samples, 0);
  const node = context.createBufferSource();
  node.buffer = buffer;
  node.connect(context.destination);
  node.start(at);
}

/** Wait until the context has played so far, or it is over. */
async function until(context, time, over) {
  while (!over() && context.currentTime < time) {
    const left = Math.min(0.25, Math.max(0.02, time - context.currentTime));
    await new Promise((done) => setTimeout(done, left * 1000));
  }
}
