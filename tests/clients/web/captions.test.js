import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";

import { cues, srt, vtt, words } from "../../../clients/web/captions.js";
import { FORMATS, text } from "../../../clients/web/download.js";
import { Timeline } from "../../../clients/web/timeline.js";

/** Characters 0.1 s apart, from a second on. */
const spoken = (some, from = 1) =>
  [...some].map((each, i) => ({ text: each, time: Math.round((from + i / 10) * 1000) / 1000 }));

function take(utterances, seconds) {
  const timeline = new Timeline({ seconds }, { from: () => null }, 0.04);
  for (const characters of utterances) {
    timeline.mark(characters);
    timeline.endUtterance();
  }
  return { name: "talk.wav", began: "2026-11-22T19:00:00.000Z", model: "small-en", timeline };
}

const one = take([spoken("one two "), spoken(" three", 5)], 10);
const two = take([spoken("four")], 3);

test("words begin a frame before their first character and end with their last", () => {
  assert.deepEqual(words(spoken(" ab  c ")), [
    { text: "ab", start: 1.06, end: 1.2, confidence: 1 },
    { text: "c", start: 1.46, end: 1.5, confidence: 1 },
  ]);
  assert.deepEqual(words([]), []);
});

test("a word is as sure as its least sure character", () => {
  const sure = [0.9, 0.4, 0.6, 1, 0.7];
  const some = spoken("abc d").map((each, i) => ({ ...each, confidence: sure[i] }));
  assert.deepEqual(words(some).map(({ confidence }) => confidence), [0.4, 0.7]);
});

test("captions are those of cortado transcribe", () => {
  const { utterances, srt: subrip, vtt: webvtt } = JSON.parse(readFileSync(new URL("captions.json", import.meta.url)));
  const found = cues(utterances.map((each) => words(each.map(([text, time]) => ({ text, time })))));
  assert.equal(srt(found), subrip);
  assert.equal(vtt(found), webvtt);
});

test("srt and vtt are as their formats want them", () => {
  const some = [
    { start: 0.5, end: 1.25, lines: ["one", "two"] },
    { start: 3661.001, end: 3662, lines: ["three"] },
  ];
  assert.equal(
    srt(some),
    "1\n00:00:00,500 --> 00:00:01,250\none\ntwo\n\n2\n01:01:01,001 --> 01:01:02,000\nthree\n",
  );
  assert.equal(
    vtt(some),
    "WEBVTT\n\n00:00:00.500 --> 00:00:01.250\none\ntwo\n\n01:01:01.001 --> 01:01:02.000\nthree\n",
  );
});

test("the text has a line for each utterance and a blank line between takes", () => {
  assert.equal(text([one, take([], 2), two]), "one two\nthree\n\nfour");
});

test("captions of several takes follow one another in time", () => {
  const [, write] = FORMATS.srt;
  assert.match(write([one, two]), /3\n00:00:10,960 --> 00:00:11,960\nfour\n$/);
});

test("json tells every time, each take by its own clock", () => {
  const { takes } = JSON.parse(FORMATS.json[1]([one, two]));
  assert.deepEqual(takes.map((each) => each.text), ["one two  three", "four"]);
  assert.deepEqual(takes[0].utterances.map((each) => each.text), ["one two", "three"]);
  assert.equal(takes[0].utterances[1].words[0].start, 5.06);
  assert.deepEqual(takes[1].characters[0], { text: "f", time: 1 });
  assert.deepEqual([takes[1].source, takes[1].duration, takes[1].model], ["talk.wav", 3, "small-en"]);
});
