/** What the picture shows: the loudness of every frame and the characters at their instants. */

import { FRAME, SAMPLE_RATE, meter } from "./pcm.js";

export const FRAME_SECONDS = FRAME / SAMPLE_RATE;

export class Timeline {
  constructor() {
    this.levels = []; // one of 0 to 1 per frame
    this.marks = []; // {text, time}, in order of time
    this.seconds = 0; // of sound
  }

  hear({ rms, samples }) {
    this.levels.push(meter(rms));
    this.seconds += samples / SAMPLE_RATE;
  }

  mark(characters) {
    this.marks.push(...characters);
  }

  /** Replace the marks by those of the final message. */
  settle(characters) {
    this.marks = [...characters];
  }

  /** The levels of the frames within [from, to) seconds, each with its start in seconds. */
  levelsWithin(from, to) {
    const first = Math.max(0, Math.floor(from / FRAME_SECONDS));
    return this.levels
      .slice(first, Math.max(first, Math.ceil(to / FRAME_SECONDS)))
      .map((level, i) => ({ level, time: (first + i) * FRAME_SECONDS }));
  }

  /** The marks within [from, to) seconds, found by bisection: hours of speech stay cheap. */
  marksWithin(from, to) {
    return this.marks.slice(this.#firstFrom(from), this.#firstFrom(to));
  }

  #firstFrom(time) {
    let low = 0;
    let high = this.marks.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.marks[middle].time < time) low = middle + 1;
      else high = middle;
    }
    return low;
  }
}
