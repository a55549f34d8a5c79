/**
 * Resampling of a stream to the model's rate: a windowed-sinc low-pass, evaluated only at the instants
 * that are wanted (a polyphase filter).
 *
 * The output sample n stands for the instant n / SAMPLE_RATE exactly, so nothing is delayed in the
 * result; the filter's own half length (under 6 ms at any rate) is only how long a sample waits.
 * Every output is the same sum in the same order whatever the block sizes, so the result of a
 * stream does not depend on how it was cut.
 *
 * Kaiser window after J. F. Kaiser 1974; the band edges are those of the lower of the two rates.
 */

import { SAMPLE_RATE } from "./pcm.js";

const STOP_DB = 96; // the noise floor of the 16-bit samples that are sent
const PASS = 0.875; // of the lower rate's half: 7 kHz of 8 kHz pass unchanged

/** The modified Bessel function of order zero, by its power series. */
function bessel0(x) {
  let term = 1;
  let sum = 1;
  for (let k = 1; term > sum * 1e-17; k += 1) {
    term *= (x / (2 * k)) ** 2;
    sum += term;
  }
  return sum;
}

function greatestCommonDivisor(a, b) {
  return b === 0 ? a : greatestCommonDivisor(b, a % b);
}

/**
 * The filter's taps, phase after phase: `up` rows of 2 * half coefficients.
 * Each row sums to one, so a constant passes as itself at every phase.
 */
function designPhases(inputRate, up) {
  const stop = Math.min(inputRate, SAMPLE_RATE) / 2 / inputRate; // cycles per input sample
  const width = stop * (1 - PASS);
  const cutoff = stop - width / 2;
  const beta = 0.1102 * (STOP_DB - 8.7);
  const half = Math.ceil((STOP_DB - 8) / (2.285 * 2 * Math.PI * width) / 2);
  const taps = new Float64Array(up * 2 * half);
  for (let phase = 0; phase < up; phase += 1) {
    const row = taps.subarray(phase * 2 * half, (phase + 1) * 2 * half);
    let sum = 0;
    for (let k = 0; k < row.length; k += 1) {
      const t = k - half + 1 - phase / up; // distance from the wanted instant, input samples
      const x = 2 * Math.PI * cutoff * t;
      const window = bessel0(beta * Math.sqrt(Math.max(0, 1 - (t / half) ** 2)));
      row[k] = (x === 0 ? 1 : Math.sin(x) / x) * window;
      sum += row[k];
    }
    for (let k = 0; k < row.length; k += 1) row[k] /= sum;
  }
  return { taps, half };
}

export class Resampler {
  /** @param {number} inputRate Hz, a whole number */
  constructor(inputRate) {
    if (!Number.isInteger(inputRate) || inputRate < 4000 || inputRate > 768000) {
      throw new RangeError(`inputRate: expected a whole number of 4000 to 768000 Hz, got ${inputRate}`);
    }
    const divisor = greatestCommonDivisor(inputRate, SAMPLE_RATE);
    this.up = SAMPLE_RATE / divisor;
    this.down = inputRate / divisor;
    this.same = inputRate === SAMPLE_RATE;
    const { taps, half } = this.same
      ? { taps: new Float64Array([1]), half: 0 }
      : designPhases(inputRate, this.up);
    this.taps = taps;
    this.half = half;
    this.received = 0; // input samples, without the padding of flush
    this.made = 0; // output samples
    this.phase = 0;
    // What may still be needed: it begins with the silence before the first sample.
    this.kept = new Float32Array(Math.max(0, half - 1));
  }

  /** The output samples that `block` completes: none to many. `block` is not kept. */
  push(block) {
    this.received += block.length;
    if (this.same) {
      this.made += block.length;
      return block.slice();
    }
    return this.#run(block, Infinity);
  }

  /** The rest after the last input: the whole output has ceil(received * up / down) samples. */
  flush() {
    const whole = Math.ceil((this.received * this.up) / this.down);
    return this.same ? new Float32Array(0) : this.#run(new Float32Array(this.half), whole);
  }

  #run(block, limit) {
    const input = new Float32Array(this.kept.length + block.length);
    input.set(this.kept);
    input.set(block, this.kept.length);
    const length = 2 * this.half;
    const capacity = Math.max(0, Math.ceil(((input.length - length + 2) * this.up) / this.down));
    const output = new Float32Array(capacity);
    let count = 0;
    let start = 0; // of the window in `input`
    while (start + length <= input.length && this.made < limit) {
      const row = this.phase * length;
      let sum = 0;
      for (let k = 0; k < length; k += 1) sum += this.taps[row + k] * input[start + k];
      output[count] = sum;
      count += 1;
      this.made += 1;
      this.phase += this.down;
      start += Math.floor(this.phase / this.up);
      this.phase %= this.up;
    }
    if (start > input.length) throw new Error(`skipped ${start - input.length} samples`);
    this.kept = input.slice(start);
    return output.subarray(0, count);
  }
}
