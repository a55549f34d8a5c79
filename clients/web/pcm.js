/** Samples as they travel: 16-bit frames of 40 ms at 16 kHz, each with its loudness. */

export const SAMPLE_RATE = 16000; // Hz, what the model hears
export const FRAME = 640; // samples: 40 ms, one step of the model

/** One channel, the mean of all, as a new array. @param {Float32Array[]} channels */
export function mono(channels) {
  const mixed = channels[0].slice();
  for (const channel of channels.slice(1)) {
    for (let i = 0; i < mixed.length; i += 1) mixed[i] += channel[i];
  }
  if (channels.length > 1) for (let i = 0; i < mixed.length; i += 1) mixed[i] /= channels.length;
  return mixed;
}

/** Little-endian signed 16-bit bytes of samples in [-1, 1); what is outside is clipped. */
export function encode(samples) {
  const bytes = new ArrayBuffer(samples.length * 2);
  const view = new DataView(bytes);
  for (let i = 0; i < samples.length; i += 1) {
    const value = Math.round(samples[i] * 32768);
    view.setInt16(i * 2, Math.max(-32768, Math.min(32767, value)), true);
  }
  return bytes;
}

/** Samples in [-1, 1) of 16-bit bytes. @param {ArrayBuffer} bytes */
export function decode(bytes) {
  return Float32Array.from(new Int16Array(bytes), (value) => value / 32768);
}

/** The root mean square of samples, 0 to 1. */
export function loudness(samples) {
  const squares = samples.reduce((sum, sample) => sum + sample * sample, 0);
  return samples.length ? Math.sqrt(squares / samples.length) : 0;
}

/** Where a loudness stands between silence (-60 dB of full scale: 0) and full scale (1). */
export function meter(rms) {
  return Math.max(0, Math.min(1, 1 + (20 * Math.log10(rms + 1e-9)) / 60));
}

/** Cuts blocks of any size into frames of exactly FRAME samples; only the last may be shorter. */
export class Framer {
  constructor() {
    this.frame = new Float32Array(FRAME);
    this.filled = 0;
  }

  /** Whole frames that `block` completes. */
  push(block) {
    const frames = [];
    let taken = 0;
    while (taken < block.length) {
      const part = block.subarray(taken, taken + FRAME - this.filled);
      this.frame.set(part, this.filled);
      this.filled += part.length;
      taken += part.length;
      if (this.filled === FRAME) {
        frames.push(this.frame);
        this.frame = new Float32Array(FRAME);
        this.filled = 0;
      }
    }
    return frames;
  }

  /** What is left, as no frame or one. */
  flush() {
    const rest = this.frame.slice(0, this.filled);
    this.filled = 0;
    return rest.length ? [rest] : [];
  }
}
