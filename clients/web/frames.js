/** The whole path from a device's samples to what is sent: resampled, cut, encoded, measured. */

import { Framer, encode, loudness } from "./pcm.js";
import { Resampler } from "./resample.js";

/**
 * @typedef {{bytes: ArrayBuffer, samples: number, rms: number}} Frame
 */

export class Packer {
  /** @param {number} inputRate Hz */
  constructor(inputRate) {
    this.resampler = new Resampler(inputRate);
    this.framer = new Framer();
  }

  /** @param {Float32Array} block of one channel  @returns {Frame[]} */
  push(block) {
    return this.framer.push(this.resampler.push(block)).map(pack);
  }

  /** The frames of what the filter and the framer still hold. @returns {Frame[]} */
  flush() {
    const whole = this.framer.push(this.resampler.flush());
    return [...whole, ...this.framer.flush()].map(pack);
  }
}

function pack(samples) {
  return { bytes: encode(samples), samples: samples.length, rms: loudness(samples) };
}
