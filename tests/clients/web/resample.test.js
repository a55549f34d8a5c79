import assert from "node:assert/strict";
import { test } from "node:test";

import { Resampler } from "../../../clients/web/resample.js";

const RATES = [44100, 48000, 96000, 22050, 8000, 16000, 11025, 32000, 192000];

/** A seeded generator of numbers in [-1, 1). */
function noise(seed) {
  let state = seed;
  return () => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return state / 2 ** 31 - 1;
  };
}

function tone(frequency, rate, seconds) {
  const amplitude = 0.5;
  const samples = new Float32Array(Math.round(rate * seconds));
  for (let i = 0; i < samples.length; i += 1) {
    samples[i] = amplitude * Math.sin((2 * Math.PI * frequency * i) / rate);
  }
  return samples;
}

function whole(samples, rate) {
  const resampler = new Resampler(rate);
  return Float32Array.of(...resampler.push(samples), ...resampler.flush());
}

function inPieces(samples, rate, sizes) {
  const resampler = new Resampler(rate);
  const output = [];
  let taken = 0;
  for (let i = 0; taken < samples.length; i += 1) {
    output.push(...resampler.push(samples.subarray(taken, taken + sizes[i % sizes.length])));
    taken += sizes[i % sizes.length];
  }
  output.push(...resampler.flush());
  return Float32Array.from(output);
}

/** The level of what stands in the middle, away from the edges, in dB of a 0.5 tone. */
function level(samples) {
  const middle = samples.subarray(800, samples.length - 800);
  const power = middle.reduce((sum, x) => sum + x * x, 0) / middle.length;
  return 10 * Math.log10(power / 0.125 + 1e-20);
}

for (const rate of RATES) {
  const lower = Math.min(rate, 16000) / 2;

  test(`the pass band is flat within 0.01 dB from ${rate} Hz`, () => {
    for (const part of [0.0125, 0.1, 0.25, 0.5, 0.75, 0.875]) {
      const ideal = level(tone(part * lower, 16000, 0.4));
      const db = level(whole(tone(part * lower, rate, 0.4), rate)) - ideal;
      assert.ok(Math.abs(db) < 0.01, `${part * lower} Hz came out at ${db.toFixed(4)} dB`);
    }
  });

  test(`a tone keeps its phase, sample by sample, from ${rate} Hz`, () => {
    const expected = tone(lower / 3, 16000, 0.3);
    const got = whole(tone(lower / 3, rate, 0.3), rate);
    for (let i = 400; i < 4400; i += 1) {
      assert.ok(Math.abs(expected[i] - got[i]) < 1e-4, `sample ${i}: ${expected[i]} ${got[i]}`);
    }
  });

  test(`the length is ceil(samples * 16000 / rate) from ${rate} Hz, to the sample`, () => {
    for (const length of [0, 1, 2, 127, 128, 1000, 4410, 4801]) {
      const output = whole(new Float32Array(length).fill(0.25), rate);
      assert.equal(output.length, Math.ceil((length * 16000) / rate), `of ${length}`);
    }
  });

  test(`the result does not depend on the block sizes from ${rate} Hz`, () => {
    const next = noise(rate);
    const samples = Float32Array.from({ length: 6000 }, next);
    const expected = whole(samples, rate);
    for (const sizes of [[1], [128], [1, 7, 640, 3], [4096], [6000]]) {
      assert.deepEqual(inPieces(samples, rate, sizes), expected, `blocks of ${sizes}`);
    }
  });

  test(`a constant stays that constant from ${rate} Hz`, () => {
    const output = whole(new Float32Array(rate / 5).fill(0.25), rate);
    for (let i = 400; i < 2800; i += 1) assert.ok(Math.abs(output[i] - 0.25) < 1e-6);
  });
}

for (const rate of RATES.filter((each) => each > 16000)) {
  test(`what would alias is 90 dB down from ${rate} Hz`, () => {
    for (const frequency of [8001, 8500, 9000, 10000, 10900, 12000, 15000, 20000, 23000]) {
      if (frequency >= rate / 2) continue;
      const db = level(whole(tone(frequency, rate, 0.4), rate));
      assert.ok(db < -90, `${frequency} Hz came through at ${db.toFixed(1)} dB`);
    }
  });
}

for (const rate of [8000, 11025]) {
  test(`no image of a tone at ${rate} Hz is heard above its band`, () => {
    const frequency = rate / 4;
    const ideal = tone(frequency, 16000, 0.4);
    const got = whole(tone(frequency, rate, 0.4), rate);
    const difference = got.map((x, i) => x - (ideal[i] ?? 0));
    assert.ok(level(difference) < -80, `${level(difference).toFixed(1)} dB`);
  });
}

test("an equal rate passes samples untouched", () => {
  const samples = Float32Array.from({ length: 700 }, noise(3));
  assert.deepEqual(whole(samples, 16000), samples);
});

test("a rate that is no whole number of hertz in range is refused", () => {
  for (const rate of [0, -48000, 44100.5, NaN, 1e7, "48000"]) {
    assert.throws(() => new Resampler(rate), /inputRate: expected .* got/);
  }
});

test("a minute of microphone blocks is resampled in well under a minute", () => {
  const resampler = new Resampler(48000);
  const block = new Float32Array(128).fill(0.1);
  const before = process.cpuUsage();
  for (let i = 0; i < (60 * 48000) / 128; i += 1) resampler.push(block);
  assert.ok(process.cpuUsage(before).user < 20e6); // microseconds
});
