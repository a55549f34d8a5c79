/** The messages of /v1/stream: how a stream ends, and what comes, checked before anyone relies on it. */

import { Failure } from "./failures.js";

export const END = JSON.stringify({ type: "end" });
export const SUSPEND = JSON.stringify({ type: "suspend" });

const isSeconds = (value) => Number.isFinite(value) && value >= 0;
const isCount = (value) => Number.isInteger(value) && value >= 0;

const isShare = (value) => Number.isFinite(value) && value >= 0 && value <= 1;
const isEach = (list, length, is) => Array.isArray(list) && list.length === length && list.every(is);

/** One time for every character of the text, and one confidence, if there are any. */
const isTimed = ({ text, times, confidences }) =>
  typeof text === "string"
  && isEach(times, [...text].length, isSeconds)
  && (confidences === undefined || isEach(confidences, times.length, isShare));

/** The texts that an utterance may have, where they were asked for. */
const isTexts = (texts) =>
  texts === undefined
  || (Array.isArray(texts)
    && texts.every((one) => typeof one?.text === "string" && Number.isFinite(one.log_probability)));

const SHAPES = {
  ready: (m) => typeof m.session === "string" && typeof m.model === "string" && isCount(m.received),
  chars: (m) => isTimed(m) && isSeconds(m.position),
  acknowledged: (m) => isCount(m.received),
  endpoint: (m) =>
    isCount(m.utterance) && isSeconds(m.start) && isSeconds(m.end) && isSeconds(m.position)
    && isTexts(m.texts),
  final: (m) => isTimed(m) && isSeconds(m.duration) && isCount(m.omitted) && isTexts(m.texts),
  suspended: (m) => typeof m.state === "string" && isCount(m.received) && isCount(m.characters),
  error: (m) => typeof m.code === "string" && typeof m.message === "string",
};

/**
 * The message in a text frame of the server; null for a type that is new to this client, which a
 * later server may send. Throws Failure "not-understood" for anything else.
 */
export function parse(text) {
  let message;
  try {
    message = JSON.parse(text);
  } catch {
    message = null;
  }
  if (typeof message?.type !== "string") {
    throw new Failure("not-understood", `expected a JSON message, got ${String(text).slice(0, 80)}`);
  }
  if (!Object.hasOwn(SHAPES, message.type)) return null;
  if (!SHAPES[message.type](message)) {
    throw new Failure("not-understood", `expected a whole "${message.type}", got ${text.slice(0, 80)}`);
  }
  return message;
}

/** A message's text as single characters. @returns {import("./stream.js").Character[]} */
export function characters({ text, times, confidences }) {
  return [...text].map((character, i) =>
    ({ text: character, time: times[i], confidence: confidences?.[i] ?? 1 }));
}
