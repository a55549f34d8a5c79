/** The characters of a take at the instants where they were heard, and where its utterances end. */

import { firstThat } from "./bisect.js";

/**
 * @typedef {{text: string, time: number, confidence: number, from: number | null, place: number, row: number}} Mark a
 *   character: the second where it was heard, where the sound begins that the attention weighed,
 *   where its letter is drawn, which may be a little later so that letters do not touch, and in
 *   which of two rows its chunk is drawn
 */

export class Timeline {
  /**
   * @param {import("./sound.js").Sound} sound
   * @param {{from: (stop: number, before: number) => number | null}} attention
   * @param {number} letter seconds that a letter takes in the picture
   */
  constructor(sound, attention, letter) {
    this.sound = sound;
    this.attention = attention;
    this.letter = letter;
    /** @type {Mark[]} in order of time */
    this.marks = [];
    this.ends = []; // the counts of marks at which utterances ended
  }

  get seconds() {
    return this.sound.seconds;
  }

  /** @param {import("./stream.js").Character[]} characters */
  mark(characters) {
    for (const { text, time, confidence } of characters) {
      const before = this.marks.at(-1);
      const from = this.attention.from(time, before?.time ?? 0);
      const place = Math.max(time, (before?.place ?? -1) + (text === " " ? 0 : this.letter));
      this.marks.push({ text, time, confidence, from, place, row: this.marks.length % 2 });
    }
  }

  /** What comes belongs to another utterance. */
  endUtterance() {
    if (this.marks.length > (this.ends.at(-1) ?? 0)) this.ends.push(this.marks.length);
  }

  /** The marks of each utterance. */
  get utterances() {
    const starts = [0, ...this.ends];
    return starts.map((start, i) => this.marks.slice(start, starts[i + 1])).filter((each) => each.length);
  }

  /** The second until which there is something to see. */
  get spoken() {
    if (!this.marks.length) return this.seconds;
    const { place } = this.marks.at(-1); // letters of a crowd may stand behind the end of the sound
    return Math.max(Math.min(this.seconds, place + 0.6), place + this.letter);
  }

  /** The marks whose letters stand within [from, to) seconds. */
  marksWithin(from, to) {
    const first = (place) => firstThat(this.marks, (mark) => mark.place >= place);
    return this.marks.slice(first(from), first(to));
  }
}
