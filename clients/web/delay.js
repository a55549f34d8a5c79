/**
 * How long after its sound a character is shown.
 *
 * The sound of stream second t was taken at the instant when frames had reached t, so the delay of
 * a character is the time from then until now. It holds everything: look-ahead, network, server.
 */

const RECENT = 15; // characters that the shown median is taken over

export class Delay {
  constructor() {
    this.recent = [];
    this.origin = Infinity; // the wall-clock instant of stream second 0, in seconds
  }

  /** Frames have reached `seconds` of the stream at the wall-clock instant `now`. */
  heard(seconds, now) {
    // The least of all: a frame that was late on its way does not make later ones look early.
    this.origin = Math.min(this.origin, now - seconds);
  }

  /** A character of stream second `time` is shown at `now`. */
  shown(time, now) {
    this.recent.push(now - (this.origin + time));
    if (this.recent.length > RECENT) this.recent.shift();
  }

  /** The stream second that is being taken at the wall-clock instant `now`. */
  now(now) {
    return Math.max(0, now - this.origin);
  }

  /** The median of the recent delays in seconds, or null before the first character. */
  get seconds() {
    const sorted = [...this.recent].sort((a, b) => a - b);
    return sorted.length ? sorted[sorted.length >> 1] : null;
  }
}
