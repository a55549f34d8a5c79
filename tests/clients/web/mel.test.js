import assert from "node:assert/strict";
import { test } from "node:test";

import { BANDS, HOP, MelStream, OVERLAP, frames } from "../../../clients/web/mel.js";
import { Sound } from "../../../clients/web/sound.js";

const tone = (hertz, seconds) =>
  Float32Array.from({ length: seconds * 16000 }, (_, i) => 0.005 * Math.sin((2 * Math.PI * hertz * i) / 16000));

const loudest = (levels) => levels.indexOf(Math.max(...levels));

test("a tone is loudest in the band of its frequency", () => {
  const bandOf = (hertz) => {
    const levels = frames(tone(hertz, 0.1));
    return loudest(levels.slice(5 * BANDS, 6 * BANDS));
  };
  const mel = (hertz) => 2595 * Math.log10(1 + hertz / 700);
  for (const hertz of [400, 1000, 3000, 6000]) {
    const expected = (mel(hertz) / mel(8000)) * (BANDS + 1) - 1;
    assert.ok(Math.abs(bandOf(hertz) - expected) <= 1.5, `${hertz} Hz`);
  }
});

test("silence is paper, full scale is ink, and nothing is out of range", () => {
  assert.ok(frames(new Float32Array(1600)).every((level) => level === 0));
  const noise = Float32Array.from({ length: 1600 }, (_, i) => Math.sin(i * i) > 0 ? 1 : -1);
  assert.ok(frames(noise).some((level) => level === 255));
});

test("a stream of any blocks gives the frames of the whole", () => {
  const samples = tone(700, 0.3);
  const padded = new Float32Array(OVERLAP + samples.length);
  padded.set(samples, OVERLAP);
  const stream = new MelStream();
  const found = [];
  for (let at = 0; at < samples.length; at += 333) found.push(...stream.push(samples.subarray(at, at + 333)));
  assert.deepEqual(Uint8Array.from(found), frames(padded));
  assert.equal(found.length / BANDS, samples.length / HOP);
});

test("the sound of a take is read back from any place to any other", async () => {
  const sound = new Sound();
  const all = Int16Array.from({ length: 640 * 600 + 7 }, (_, i) => (i * 7919) % 32768);
  for (let at = 0; at < all.length; at += 640) sound.append(all.slice(at, at + 640).buffer);
  assert.equal(sound.samples, all.length);
  for (const [from, to] of [[0, 10], [159_990, 160_010], [320_500, 384_007], [383_000, 1e6], [1e6, 2e6]]) {
    const found = await sound.read(from, to);
    assert.deepEqual([...found], [...all.slice(from, to)].map((value) => value / 32768));
  }
});
