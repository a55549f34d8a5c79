/**
 * One stream as the server counts it. A take is one of these, or, where a server could not go on
 * with the one before (it was restarted, say), several: each begins at a sample of the take.
 */

import { characters } from "./messages.js";

export class Part {
  /**
   * @param {number} base the sample of the take at which it begins
   * @param {number} sampleRate Hz
   */
  constructor(base, sampleRate) {
    this.base = base;
    this.sampleRate = sampleRate;
    /** @type {string | null} */
    this.token = null; // opens it again if its connection is lost
    /** @type {string | null} */
    this.state = null; // the stream itself, while it is suspended
    this.begun = false; // a server has greeted it
    this.characters = 0; // that came
    this.utterances = 0; // whose ends came
    this.decided = base; // the sample of the take up to which nothing more will be said
    /** @type {number | null} */
    this.stored = null; // the sample of the take before what the server may need again, if it says
  }

  /** Whether the server may still have it. */
  get resumable() {
    return this.state !== null || this.token !== null;
  }

  /** The first message of a connection that begins it or goes on with it. */
  hello({ encoding, keep, ...asked }) {
    const { state, token, characters: heard, utterances, sampleRate } = this;
    if (state !== null) return JSON.stringify({ type: "resume", state, encoding, keep });
    if (token !== null) {
      return JSON.stringify({ type: "resume", token, characters: heard, utterances });
    }
    return JSON.stringify({ type: "start", sample_rate: sampleRate, encoding, keep, ...asked });
  }

  /** Note characters that came; gives them with times of the take. */
  heard(message) {
    const found = characters(message);
    const begins = this.base > 0 && !this.characters && found.length > 0;
    this.characters += found.length;
    const moved = found.map((each) => ({ ...each, time: this.#takeSeconds(each.time) }));
    if (begins && moved[0].text !== " ") {
      moved.unshift({ ...moved[0], text: " ", time: this.decided / this.sampleRate }); // what came before has ended
    }
    if (found.length) this.decided = this.#sample(found.at(-1).time);
    return moved;
  }

  /** Note that the server has stored the stream as it was after so many samples. */
  acknowledged({ received }) {
    this.stored = this.base + received;
  }

  /** Note the end of an utterance; gives it with times of the take, and its texts if there are. */
  ended({ utterance, start, end, position, texts }) {
    this.utterances = utterance + 1;
    this.decided = this.#sample(position); // what comes is a new utterance
    return {
      start: this.#takeSeconds(start), end: this.#takeSeconds(end), ...(texts && { texts }),
    };
  }

  /** The characters of the final text that had not come before it. */
  missed({ text, times, confidences, omitted }) {
    const known = Math.max(0, this.characters - omitted);
    return {
      text: [...text].slice(known).join(""),
      times: times.slice(known),
      confidences: confidences?.slice(known),
    };
  }

  #sample(seconds) {
    return this.base + Math.round(seconds * this.sampleRate);
  }

  #takeSeconds(seconds) {
    return Math.round((seconds + this.base / this.sampleRate) * 1000) / 1000;
  }
}
