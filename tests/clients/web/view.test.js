import assert from "node:assert/strict";
import { test } from "node:test";

import { Delay } from "../../../clients/web/delay.js";
import { clock, seconds } from "../../../clients/web/format.js";
import { statedRate } from "../../../clients/web/recording.js";
import { Timeline } from "../../../clients/web/timeline.js";

test("the delay of a character is the time since its sound was taken", () => {
  const delay = new Delay();
  assert.equal(delay.seconds, null);
  for (let i = 1; i <= 50; i += 1) delay.heard(i * 0.04, 100 + i * 0.04);
  delay.shown(1.5, 102);
  assert.ok(Math.abs(delay.seconds - 0.5) < 1e-9);
  assert.ok(Math.abs(delay.now(102.25) - 2.25) < 1e-9);
});

test("a frame that is late on its way does not make the delay look smaller", () => {
  const delay = new Delay();
  delay.heard(0.04, 100.04);
  delay.heard(0.08, 100.9);
  delay.shown(0.08, 101);
  assert.ok(Math.abs(delay.seconds - 0.92) < 1e-9);
});

test("the delay is the median of the last fifteen", () => {
  const delay = new Delay();
  delay.heard(0, 0);
  for (let i = 0; i < 100; i += 1) delay.shown(0, i === 99 ? 1000 : i < 85 ? 7 : 0.25);
  assert.equal(delay.seconds, 0.25);
});

test("the timeline finds the levels and the marks of a stretch", () => {
  const timeline = new Timeline();
  for (let i = 0; i < 100; i += 1) timeline.hear({ rms: i / 100, samples: 640 });
  assert.ok(Math.abs(timeline.seconds - 4) < 1e-9);
  assert.equal(timeline.levelsWithin(1, 2).length, 25);
  assert.equal(timeline.levelsWithin(1, 2)[0].time, 1);
  assert.equal(timeline.levelsWithin(-2, 0.04).length, 1);
  assert.equal(timeline.levelsWithin(90, 99).length, 0);
  const marks = [0.04, 1, 1, 1.96, 2, 3].map((time, i) => ({ text: "abcdef"[i], time }));
  timeline.mark(marks.slice(0, 2));
  timeline.mark(marks.slice(2));
  assert.equal(timeline.marksWithin(1, 2).map((each) => each.text).join(""), "bcd");
  timeline.settle(marks.slice(0, 1));
  assert.deepEqual(timeline.marksWithin(0, 9), marks.slice(0, 1));
});

test("times are shown as a clock, durations in seconds", () => {
  assert.deepEqual([0, 9.99, 75, 3599, 3600, 36061].map(clock), [
    "0:00", "0:09", "1:15", "59:59", "1:00:00", "10:01:01",
  ]);
  assert.equal(seconds(0.4249), "0.42 s");
  assert.equal(seconds(12.34, 1), "12.3 s");
  assert.equal(seconds(null), "–");
});

/** The head of a wav file, with a chunk before its format as recorders write them. */
function wav(rate, before = 0) {
  const bytes = new Uint8Array(64 + before);
  const view = new DataView(bytes.buffer);
  const tag = (at, text) => bytes.set([...text].map((c) => c.charCodeAt(0)), at);
  tag(0, "RIFF");
  tag(8, "WAVE");
  let at = 12;
  if (before) {
    tag(at, "LIST");
    view.setUint32(at + 4, before - 8, true);
    at += before;
  }
  tag(at, "fmt ");
  view.setUint32(at + 4, 16, true);
  view.setUint32(at + 12, rate, true);
  return bytes.buffer;
}

test("a wav or flac file is decoded at the rate that it states", () => {
  assert.equal(statedRate(wav(16000)), 16000);
  assert.equal(statedRate(wav(44100, 34)), 44100);
  const flac = new Uint8Array(42);
  flac.set([..."fLaC"].map((c) => c.charCodeAt(0)));
  new DataView(flac.buffer).setUint32(18, (22050 << 12) >>> 0);
  assert.equal(statedRate(flac.buffer), 22050);
});

test("any other file, and a rate that browsers refuse, is decoded at 48 kHz", () => {
  for (const buffer of [wav(4000), wav(3e6), new ArrayBuffer(0), new ArrayBuffer(13)]) {
    assert.equal(statedRate(buffer), 48000);
  }
  assert.equal(statedRate(wav(16000).slice(0, 14)), 48000);
});
