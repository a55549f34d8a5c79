import assert from "node:assert/strict";
import { test } from "node:test";

import { Failure, closeFailure, microphoneFailure, words } from "../../../clients/web/failures.js";
import { characters, parse } from "../../../clients/web/messages.js";
import { streamAddress } from "../../../clients/web/take.js";

const named = (name) => Object.assign(new Error("as the browser says"), { name });
const code = (expected) => (failure) => failure instanceof Failure && failure.code === expected;

test("the stream is beside the page, secure where the page is", () => {
  assert.equal(streamAddress("http://localhost:8000/").href, "ws://localhost:8000/v1/stream");
  assert.equal(
    streamAddress("https://example.org/speech/index.html?debug=1#x").href,
    "wss://example.org/speech/v1/stream",
  );
});

test("messages of the server are read", () => {
  const chars = { type: "chars", text: "hé", times: [0.04, 0.08], position: 0.2 };
  assert.deepEqual(parse(JSON.stringify(chars)), chars);
  const heard = (sure) =>
    [{ text: "h", time: 0.04, confidence: sure[0] }, { text: "é", time: 0.08, confidence: sure[1] }];
  assert.deepEqual(characters(chars), heard([1, 1])); // of a server that tells none
  assert.deepEqual(characters({ ...chars, confidences: [0.5, 0.25] }), heard([0.5, 0.25]));
  const final = { type: "final", text: "", times: [], duration: 0, omitted: 0 };
  assert.deepEqual(parse(JSON.stringify(final)), final);
  const error = { type: "error", code: "idle_timeout", message: "expected audio, got none" };
  assert.deepEqual(parse(JSON.stringify(error)), error);
});

test("a message of a type that this page does not know yet is passed over", () => {
  assert.equal(parse('{"type": "weather", "sun": true}'), null);
  assert.equal(parse('{"type": "toString"}'), null);
});

test("anything that is no whole message is not taken for one", () => {
  for (const text of [
    "",
    "hello",
    "null",
    "[]",
    '{"text": "a"}',
    '{"type": "chars", "text": "ab", "times": [0.1], "position": 1}',
    '{"type": "chars", "text": "a", "times": ["now"], "position": 1}',
    '{"type": "chars", "text": "a", "times": [0.1], "confidences": [], "position": 1}',
    '{"type": "chars", "text": "a", "times": [0.1], "confidences": [1.1], "position": 1}',
    '{"type": "chars", "text": "a", "times": [-1], "position": 1}',
    '{"type": "final", "text": "a", "times": [0.1]}',
    '{"type": "error", "code": 7, "message": "no"}',
    new ArrayBuffer(4),
  ]) {
    assert.throws(() => parse(text), code("not-understood"), String(text));
  }
});

test("every failure of the microphone has words of its own", () => {
  const said = ["NotAllowedError", "NotFoundError", "NotReadableError"].map(
    (name) => words(microphoneFailure(named(name))).title,
  );
  assert.deepEqual(said, [
    "The microphone was not allowed.",
    "No microphone was found.",
    "The microphone could not be opened.",
  ]);
  assert.match(words(microphoneFailure(named("AbortError"))).origin, /as the browser says/);
});

test("an insecure address is told with what helps", () => {
  assert.match(words(new Failure("insecure")).advice, /via https or localhost/);
});

test("a close of the connection is told by its code", () => {
  assert.equal(closeFailure(1006).code, "dropped");
  assert.equal(closeFailure(1012).code, "shutting_down");
  assert.equal(closeFailure(1013).code, "too_many_streams");
  assert.match(words(closeFailure(4000, "strange")).origin, /strange/);
});

test("a code of the server without words here is told by the server's own sentence", () => {
  const { title, origin } = words(new Failure("brand_new", "expected tea, got coffee"));
  assert.equal(title, "The stream was ended by an error.");
  assert.equal(origin, "brand_new: expected tea, got coffee");
  assert.equal(words(new Failure("toString", "x")).title, title);
});
