import assert from "node:assert/strict";
import { test } from "node:test";

import { sentence } from "../../../clients/web/about.js";
import { attention } from "../../../clients/web/attention.js";
import { stated } from "../../../clients/web/container.js";
import { Delay } from "../../../clients/web/delay.js";
import { clock, seconds } from "../../../clients/web/format.js";
import { ramp } from "../../../clients/web/palette.js";
import { excess } from "../../../clients/web/settings-form.js";
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

test("a device that was away does not make all later characters look late", () => {
  const delay = new Delay();
  for (let i = 1; i <= 25; i += 1) delay.heard(i * 0.04, 100 + i * 0.04);
  for (let i = 26; i <= 400; i += 1) delay.heard(i * 0.04, 103 + i * 0.04); // three seconds are missing
  delay.shown(16, 119.5);
  assert.ok(Math.abs(delay.seconds - 0.5) < 1e-9);
});

test("the delay is the median of the last fifteen", () => {
  const delay = new Delay();
  delay.heard(0, 0);
  for (let i = 0; i < 100; i += 1) delay.shown(0, i === 99 ? 1000 : i < 85 ? 7 : 0.25);
  assert.equal(delay.seconds, 0.25);
});

const KNOWN = { from: (stop) => Math.max(0, stop - 0.08) };

function timeline(text, times, ends = []) {
  const found = new Timeline({ seconds: 100 }, KNOWN, 0.05);
  [...text].forEach((each, i) => {
    found.mark([{ text: each, time: times[i] }]);
    if (ends.includes(i + 1)) found.endUtterance();
  });
  return found;
}

test("letters of one instant stand side by side, and each chunk ends at its stop", () => {
  const { marks } = timeline("ab c", [0.04, 0.04, 0.08, 2]);
  assert.deepEqual(marks.map(({ place }) => Number(place.toFixed(3))), [0.04, 0.09, 0.09, 2]);
  assert.deepEqual(marks.map(({ from }) => Number(from.toFixed(3))), [0, 0, 0, 1.92]);
  assert.deepEqual(marks.map(({ row }) => row), [0, 1, 0, 1]);
});

test("the timeline finds the marks of a stretch, and parts utterances", () => {
  const found = timeline("abcdef", [0.04, 1, 1.06, 1.9, 2.4, 3], [2, 4]);
  const shown = found.marksWithin(1, 2);
  assert.equal(shown.map((each) => each.text).join(""), "bcd");
  assert.deepEqual(found.utterances.map((each) => each.map(({ text }) => text).join("")), ["ab", "cd", "ef"]);
  found.endUtterance();
  found.endUtterance();
  assert.equal(found.utterances.length, 3);
});

test("what there is to see ends with the last character, not with the silence after it", () => {
  assert.ok(Math.abs(timeline("ab", [1, 2]).spoken - 2.6) < 1e-9);
  assert.equal(timeline("", []).spoken, 100);
});

test("the sound that a stop looked at is told by the card, and not invented", () => {
  const info = (kind, more = {}) => ({
    step_ms: 40,
    card: { config: { decoder: { kind: "bahdanau", attention: { kind, chunk: 2, span: 100, ...more } } } },
  });
  const from = (kind, stop, before) => attention(info(kind)).from(stop, before);
  assert.equal(from("mocha", 1, 0.9), 0.92);
  assert.equal(from("mocha", 0.04, 0), 0);
  assert.equal(from("monotonic", 1, 0.5), 0.96);
  assert.equal(from("matcha", 1, 0.5), 0.5);
  assert.equal(from("soft", 1, 0.5), null);
  assert.match(attention(info("mocha", { chunk: 4 })).describe, /160 ms/);
  const ctc = { step_ms: 40, card: { config: { decoder: { kind: "ctc", attention: { kind: "mocha" } } } } };
  assert.equal(attention(ctc).from(1, 0), null);
  assert.equal(attention({ step_ms: 40 }).from(1, 0), null);
});

test("the sentence about errors is that of the card", () => {
  const card = (...wers) => ({ card: { card: { scores: wers.map((wer) => ({ wer })) } } });
  assert.match(sentence(card(0.4767, 0.4999)), /48 to 50 of 100 words/);
  assert.match(sentence(card(0.12)), / 12 of 100 words/);
  assert.match(sentence(card()), /not measured/);
  assert.match(sentence({}), /not measured/);
});

test("the palette goes from its first colour to its last", () => {
  const bytes = new Uint8Array(ramp(["#000000", "#804020", "#ffffff"]).buffer);
  assert.deepEqual([...bytes.slice(0, 4)], [0, 0, 0, 255]);
  assert.deepEqual([...bytes.slice(-4)], [255, 255, 255, 255]);
  assert.ok(Math.abs(bytes[127 * 4] - 128) <= 1);
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

const rateOf = (buffer) => stated(buffer).rate;

test("a wav file that is cut short is known by its header, but not one that was written into a pipe", { timeout: 5000 }, () => {
  const file = new Uint8Array(144);
  file.set(new Uint8Array(wav(16000)).subarray(0, 36));
  file.set([..."data"].map((c) => c.charCodeAt(0)), 36);
  const view = new DataView(file.buffer);
  for (const [length, missing] of [[100, 0], [101, 1], [4000, 3900], [0, 0], [0xffffffff, 0]]) {
    view.setUint32(40, length, true);
    assert.deepEqual(stated(file.buffer), { rate: 16000, missing });
  }
});

test("a wav file of chunks without end is looked at for a moment", () => {
  const chunks = new Uint8Array(100e6); // empty ones without names
  chunks.set(new Uint8Array(wav(16000)).subarray(0, 36));
  const before = performance.now();
  assert.deepEqual(stated(chunks.buffer), { rate: 16000, missing: 0 });
  assert.ok(performance.now() - before < 100);
});

test("an ogg file that is cut within its last page is known by that page", { timeout: 5000 }, () => {
  const page = new Uint8Array(27 + 2 + 300);
  page.set([..."OggS"].map((c) => c.charCodeAt(0)));
  page.set([2, 255, 45], 26); // two segments
  const file = new Uint8Array([...page, ...page]);
  for (const [cut, missing] of [[0, 0], [1, 1], [300, 300], [301, 256], [302, 2], [310, 9], [329, 0]]) {
    assert.equal(stated(file.slice(0, file.length - cut).buffer).missing, missing, `${cut}`);
  }
  const broken = new Uint8Array(50e6);
  broken.set(page.subarray(0, 4));
  assert.equal(stated(broken.buffer).missing, 0); // at once
});

test("a wav or flac file is decoded at the rate that it states", () => {
  assert.equal(rateOf(wav(16000)), 16000);
  assert.equal(rateOf(wav(44100, 34)), 44100);
  const flac = new Uint8Array(42);
  flac.set([..."fLaC"].map((c) => c.charCodeAt(0)));
  new DataView(flac.buffer).setUint32(18, (22050 << 12) >>> 0);
  assert.equal(rateOf(flac.buffer), 22050);
});

test("any other file, and a rate that browsers refuse, is decoded at 48 kHz", () => {
  for (const buffer of [wav(4000), wav(3e6), new ArrayBuffer(0), new ArrayBuffer(13)]) {
    assert.equal(rateOf(buffer), 48000);
  }
  assert.equal(rateOf(wav(16000).slice(0, 14)), 48000);
});

test("names that no server takes are told beforehand", () => {
  assert.equal(excess([]), "");
  assert.equal(excess(["Ada Lovelace", "Adam"]), "");
  assert.match(excess(Array(101).fill("a")), /101 names, at most 100/);
  assert.match(excess(["Ada", "b".repeat(101)]), /Too long: bbb/);
  const names = (count) => Array.from({ length: count }, (_, i) => String.fromCharCode(97 + i).repeat(73));
  assert.equal(excess([...names(7)]), ""); // 511 letters
  assert.equal(excess([...names(7), "aaa"]), ""); // a beginning of another
  assert.match(excess([...names(7), "aB"]), /512 letters, at most 511/);
});
