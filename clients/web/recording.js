/** A recording (a file that was opened or dropped) as a source of frames. */

import { Failure } from "./failures.js";
import { clock } from "./format.js";
import { Packer } from "./frames.js";
import { mono } from "./pcm.js";

const MAX_BYTES = 200e6;
const MAX_SECONDS = 3 * 3600; // whose samples, at 48 kHz, still fit into an array of Chromium's
const LONG_BYTES = 5e6; // of a file that may be as long
const TOLD_WITHIN = 3000; // ms
const BLOCK = 0.04; // seconds of the recording resampled at a time
const ANY_RATE = 48000; // what decoding goes to where the file's own rate is not known; every browser can
const UNKNOWN_LENGTH = 0x7ffff000; // writers of wav into a pipe leave this or more

/**
 * What a file says of itself: its sample rate (of wav and flac; 48 kHz for any other), and how many
 * bytes are missing (of wav and ogg), which no browser tells.
 * Decoding at the file's own rate leaves the resampling to our filter instead of the browser's.
 * @param {ArrayBuffer} buffer  @returns {{rate: number, missing: number}}
 */
export function stated(buffer) {
  const view = new DataView(buffer);
  const size = view.byteLength;
  const tag = (at) => at + 4 <= size && String.fromCharCode(...new Uint8Array(buffer, at, 4));
  let rate = 0;
  let missing = 0;
  if (tag(0) === "RIFF" && tag(8) === "WAVE") {
    for (let at = 12; at + 8 <= size;) {
      const name = tag(at);
      const length = view.getUint32(at + 4, true);
      at += 8;
      if (name === "fmt " && at + 8 <= size) rate = view.getUint32(at + 4, true);
      if (name === "data" && length < UNKNOWN_LENGTH) missing = Math.max(0, at + length - size);
      at += length + (length % 2);
    }
  } else if (tag(0) === "OggS") {
    let at = size - 4; // of the last page
    while (tag(at) !== "OggS") at -= 1;
    const segments = at + 26 < size ? view.getUint8(at + 26) : 1;
    const lengths = new Uint8Array(buffer).subarray(at + 27, at + 27 + segments);
    missing = Math.max(0, lengths.reduce((end, length) => end + length, at + 27 + segments) - size);
  } else if (tag(0) === "fLaC" && size >= 22) {
    rate = view.getUint32(18) >>> 12; // 20 bits of STREAMINFO
  }
  return { rate: rate >= 8000 && rate <= 192000 ? rate : ANY_RATE, missing };
}

/** The seconds that a file states, which a player tells without decoding it; 0 where none does. */
async function statedSeconds(file) {
  const player = new Audio();
  const address = URL.createObjectURL(file);
  const told = new Promise((done) => {
    player.onloadedmetadata = done;
    player.onerror = done;
    setTimeout(done, TOLD_WITHIN);
  });
  player.preload = "metadata";
  player.src = address;
  await told;
  URL.revokeObjectURL(address);
  return Number.isFinite(player.duration) ? player.duration : 0;
}

export class Recording {
  live = false;

  /** @param {File} file */
  constructor(file) {
    this.file = file;
    this.name = file.name;
    this.stopped = false;
    this.lost = null;
  }

  async open() {
    const { size } = this.file;
    if (size > MAX_BYTES) throw new Failure("too-large", `${this.name}: ${size} bytes`);
    const length = size > LONG_BYTES ? await statedSeconds(this.file) : 0;
    if (length > MAX_SECONDS) throw new Failure("too-large", `${this.name}: ${clock(length)}`);
    try {
      const bytes = await this.file.arrayBuffer();
      const { rate, missing } = stated(bytes);
      if (missing) this.lost = new Failure("cut-short", `${this.name}: ${missing} bytes are missing`);
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
