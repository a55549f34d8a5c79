import assert from "node:assert/strict";
import { test } from "node:test";

import { Packer } from "../../../clients/web/frames.js";
import { FRAME, Framer, encode, loudness, meter, mono } from "../../../clients/web/pcm.js";

test("channels are mixed to their mean, and the input is left alone", () => {
  const left = Float32Array.of(0.5, -0.5);
  assert.deepEqual(mono([left, Float32Array.of(0, -0.25)]), Float32Array.of(0.25, -0.375));
  assert.deepEqual(mono([left]), left);
  assert.notEqual(mono([left]), left);
  assert.deepEqual(left, Float32Array.of(0.5, -0.5));
});

test("samples become little-endian 16-bit, clipped at full scale", () => {
  const bytes = new Uint8Array(encode(Float32Array.of(0, 1 / 32768, -1, 1, 2, -2, 0.5)));
  assert.deepEqual([...bytes], [0, 0, 1, 0, 0, 128, 255, 127, 255, 127, 0, 128, 0, 64]);
});

test("every 16-bit value survives the way through a float", () => {
  const values = Int16Array.from({ length: 65536 }, (_, i) => i - 32768);
  const back = new Int16Array(encode(Float32Array.from(values, (v) => v / 32768)));
  assert.deepEqual(back, values);
});

test("loudness is the root mean square", () => {
  assert.equal(loudness(Float32Array.of(0.5, -0.5, 0.5, -0.5)), 0.5);
  assert.equal(loudness(new Float32Array(0)), 0);
});

test("the meter stands at 0 for silence, at 1 for full scale, between in decibels", () => {
  assert.equal(meter(0), 0);
  assert.equal(meter(1e-4), 0);
  assert.ok(Math.abs(meter(1) - 1) < 1e-6);
  assert.ok(Math.abs(meter(10 ** (-30 / 20)) - 0.5) < 1e-6);
});

test("frames have 640 samples in order, and only the rest is shorter", () => {
  const framer = new Framer();
  const samples = Float32Array.from({ length: 3 * FRAME + 5 }, (_, i) => i);
  const frames = [];
  for (let i = 0; i < samples.length; i += 43) {
    frames.push(...framer.push(samples.subarray(i, i + 43)));
  }
  assert.deepEqual(frames.map((frame) => frame.length), [FRAME, FRAME, FRAME]);
  const rest = framer.flush();
  assert.equal(rest.length, 1);
  assert.equal(rest[0].length, 5);
  assert.deepEqual(Float32Array.of(...frames.flatMap((frame) => [...frame]), ...rest[0]), samples);
  assert.deepEqual(framer.flush(), []);
});

test("a second of a 48 kHz device is 16,000 samples in 25 frames", () => {
  const packer = new Packer(48000);
  const frames = [];
  for (let i = 0; i < 48000 / 128; i += 1) frames.push(...packer.push(new Float32Array(128)));
  frames.push(...packer.flush());
  assert.equal(frames.reduce((sum, frame) => sum + frame.samples, 0), 16000);
  assert.equal(frames.length, 25);
  assert.ok(frames.every((frame) => frame.bytes.byteLength === frame.samples * 2));
});
