/**
 * How long after its sound a character is shown.
 *
 * The sound of stream second t was taken at the instant when frames had reached t, so the delay of
 * a character is the time from then until now. It holds everything: look-ahead, network, server.
 */

const FRAMES = 10; // seconds of frames that say when the stream's sound was taken
const RECENT = 15; // characters that the shown median is taken over

export class Delay {
  constructor() {
    this.recent = [];
    this.origins = []; // the wall-clock instants of stream second 0 by the last frames: those that are least, or may become it
  }

  /** Frames have reached `seconds` of the stream at the wall-clock instant `now`. */
  heard(seconds, now) {
    const origin = now - seconds;
    while (this.origins.length && this.origins.at(-1).origin >= origin) this.origins.pop();
    this.origins.push({ now, origin });
    while (this.origins[0].now < now - FRAMES) this.origins.shift();
  }

  /**
   * The least of the last: a frame that was late on its way does not make later ones look early,
   * and a device that was away for a while does not make all later ones look late.
   */
  get origin() {
    return this.origins.length ? this.origins[0].origin : Infinity;
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
