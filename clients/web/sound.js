/**
 * The sound of a take, for playing it and drawing it again. It lies in blobs, which a browser
 * keeps outside the page's own memory and puts on the disk where there are many.
 */

import { SAMPLE_RATE, decode } from "./pcm.js";

const BLOB = 10 * SAMPLE_RATE; // samples in each

export class Sound {
  #blobs = []; // of BLOB samples each
  #frames = []; // what will be the next

  constructor() {
    this.samples = 0;
  }

  get seconds() {
    return this.samples / SAMPLE_RATE;
  }

  /** @param {ArrayBuffer} bytes of a frame, 16-bit, of a length that divides ten seconds; the last may be shorter */
  append(bytes) {
    this.#frames.push(bytes);
    this.samples += bytes.byteLength / 2;
    if (this.samples >= (this.#blobs.length + 1) * BLOB) {
      this.#blobs.push(new Blob(this.#frames));
      this.#frames = [];
    }
  }

  /** The samples in [-1, 1) from one position to another, as far as there are any. */
  async read(from, to) {
    const first = Math.min(Math.floor(from / BLOB), this.#blobs.length);
    const last = Math.ceil(to / BLOB);
    const blobs = this.#blobs.slice(first, last);
    if (last > this.#blobs.length) blobs.push(...this.#frames);
    const part = new Blob(blobs).slice((from - first * BLOB) * 2, (to - first * BLOB) * 2);
    return decode(await part.arrayBuffer());
  }
}
