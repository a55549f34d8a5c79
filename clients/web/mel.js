/** Log-mel energies for the picture: what the model hears, to the precision of a screen. */

import { SAMPLE_RATE } from "./pcm.js";

export const BANDS = 80;
export const HOP = SAMPLE_RATE / 100; // samples: 10 ms
const WINDOW = SAMPLE_RATE / 40; // samples: 25 ms
export const OVERLAP = WINDOW - HOP; // samples before a frame's own that it is made from
const FFT = 512;
const QUIET = -40; // dB, drawn as paper
const LOUD = 18; // dB, drawn as ink

const mel = (hertz) => 2595 * Math.log10(1 + hertz / 700);
const hertz = (mels) => 700 * (10 ** (mels / 2595) - 1);

/** For each band its first bin and its triangle of weights. */
function bank() {
  const edge = (i) => (hertz((i / (BANDS + 1)) * mel(SAMPLE_RATE / 2)) / SAMPLE_RATE) * FFT;
  return Array.from({ length: BANDS }, (_, band) => {
    const [low, middle, high] = [edge(band), edge(band + 1), edge(band + 2)];
    const first = Math.ceil(low);
    const weights = [];
    for (let bin = first; bin < high || !weights.length; bin += 1) {
      weights.push(Math.max(0.05, Math.min((bin - low) / (middle - low), (high - bin) / (high - middle))));
    }
    return { first, weights };
  });
}

const BANK = bank();
const HANN = Float32Array.from({ length: WINDOW }, (_, i) => 0.5 - 0.5 * Math.cos((2 * Math.PI * (i + 0.5)) / WINDOW));
const COS = Float32Array.from({ length: FFT / 2 }, (_, i) => Math.cos((2 * Math.PI * i) / FFT));
const SIN = Float32Array.from({ length: FFT / 2 }, (_, i) => -Math.sin((2 * Math.PI * i) / FFT));
const REVERSED = Uint16Array.from({ length: FFT }, (_, i) => {
  let reversed = 0;
  for (let bit = 1; bit < FFT; bit *= 2) reversed = reversed * 2 + ((i & bit) > 0);
  return reversed;
});

/** The Fourier transform in place (Cooley and Tukey 1965); the input is in bit-reversed order. */
function transform(real, imaginary) {
  for (let half = 1; half < FFT; half *= 2) {
    const stride = FFT / (2 * half);
    for (let block = 0; block < FFT; block += 2 * half) {
      for (let k = 0; k < half; k += 1) {
        const a = block + k;
        const b = a + half;
        const re = real[b] * COS[k * stride] - imaginary[b] * SIN[k * stride];
        const im = real[b] * SIN[k * stride] + imaginary[b] * COS[k * stride];
        real[b] = real[a] - re;
        imaginary[b] = imaginary[a] - im;
        real[a] += re;
        imaginary[a] += im;
      }
    }
  }
}

const REAL = new Float32Array(FFT);
const IMAGINARY = new Float32Array(FFT);

/**
 * Frames of (N - OVERLAP) / HOP times BANDS levels, 0 for quiet and 255 for loud.
 * @param {Float32Array} samples (N,) the first OVERLAP of them heard before
 */
export function frames(samples) {
  const count = Math.max(0, Math.floor((samples.length - OVERLAP) / HOP));
  const levels = new Uint8Array(count * BANDS);
  for (let frame = 0; frame < count; frame += 1) {
    REAL.fill(0);
    IMAGINARY.fill(0);
    for (let i = 0; i < WINDOW; i += 1) REAL[REVERSED[i]] = samples[frame * HOP + i] * HANN[i];
    transform(REAL, IMAGINARY);
    for (let band = 0; band < BANDS; band += 1) {
      const { first, weights } = BANK[band];
      let power = 1e-9;
      for (let i = 0; i < weights.length; i += 1) {
        power += weights[i] * (REAL[first + i] ** 2 + IMAGINARY[first + i] ** 2);
      }
      const level = (10 * Math.log10(power) - QUIET) / (LOUD - QUIET);
      levels[frame * BANDS + band] = Math.round(255 * Math.max(0, Math.min(1, level)));
    }
  }
  return levels;
}

/** The frames of a stream of samples, as they become whole. */
export class MelStream {
  #tail = new Float32Array(OVERLAP);

  /** @param {Float32Array} samples  @returns {Uint8Array} as of frames() */
  push(samples) {
    const all = new Float32Array(this.#tail.length + samples.length);
    all.set(this.#tail);
    all.set(samples, this.#tail.length);
    const found = frames(all);
    this.#tail = all.slice((found.length / BANDS) * HOP);
    return found;
  }
}
