/** A recording (a file that was opened or dropped) as a source of frames. */

import { stated, statedSeconds } from "./container.js";
import { Failure } from "./failures.js";
import { clock } from "./format.js";
import { Packer } from "./frames.js";
import { mono } from "./pcm.js";

const MAX_BYTES = 200e6;
const MAX_SECONDS = 3 * 3600; // whose samples, at 48 kHz, still fit into an array of Chromium's
const LONG_BYTES = 5e6; // of a file that may be as long
const BLOCK = 0.04; // seconds of the recording resampled at a time

export class Recording {
  live = false;

  /** @param {File} file */
  constructor(file) {
    this.file = file;
    this.name = file.name;
    this.stopped = false;
    this.cut = null; // a Failure, of a file that is cut short
  }

  async open() {
    const { size } = this.file;
    if (size > MAX_BYTES) throw new Failure("too-large", `${this.name}: ${size} bytes`);
    const length = size > LONG_BYTES ? await statedSeconds(this.file) : 0;
    if (length > MAX_SECONDS) throw new Failure("too-large", `${this.name}: ${clock(length)}`);
    try {
      const bytes = await this.file.arrayBuffer();
      const { rate, missing } = stated(bytes);
      if (missing) this.cut = new Failure("cut-short", `${this.name}: ${missing} bytes are missing`);
      this.audio = await new OfflineAudioContext(1, 1, rate).decodeAudioData(bytes);
    } catch (error) {
      throw new Failure("not-audio", `${this.name}: ${error.message}`);
    }
  }

  /** Give every frame to `onframe`, each once the one before it was taken. */
  async deliver(onframe) {
    const { sampleRate, length, numberOfChannels } = this.audio;
    const packer = new Packer(sampleRate);
    const step = Math.round(BLOCK * sampleRate);
    const channels = Array.from({ length: numberOfChannels }, (_, i) =>
      this.audio.getChannelData(i));
    for (let at = 0; at < length && !this.stopped; at += step) {
      const block = mono(channels.map((channel) => channel.subarray(at, at + step)));
      for (const frame of packer.push(block)) await onframe(frame);
    }
    for (const frame of packer.flush()) await onframe(frame);
  }

  /** Why the text ends before the recording does, unless somebody stopped it before that. */
  get lost() {
    return this.stopped ? null : this.cut;
  }

  /** Seconds of the whole recording. */
  get seconds() {
    return this.audio.duration;
  }

  /** Frames wait while nobody takes them, so there is nothing to do. */
  pause() {}

  resume() {}

  stop() {
    this.stopped = true;
  }

  close() {
    this.stopped = true;
    this.audio = null;
  }
}
