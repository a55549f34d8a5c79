/** The messages of /v1/stream: what is sent, and what comes, checked before anyone relies on it. */

import { Failure } from "./failures.js";
import { SAMPLE_RATE } from "./pcm.js";

export const START = JSON.stringify({
  type: "start",
  sample_rate: SAMPLE_RATE,
  encoding: "pcm_s16le",
});
export const END = JSON.stringify({ type: "end" });

const isSeconds = (value) => Number.isFinite(value) && value >= 0;

/** One time for every character of the text. */
const isTimed = ({ text, times }) =>
  typeof text === "string"
  && Array.isArray(times)
  && times.length === [...text].length
  && times.every(isSeconds);

const SHAPES = {
  ready: (m) => typeof m.session === "string" && typeof m.model === "string",
  chars: (m) => isTimed(m) && isSeconds(m.position),
  endpoint: (m) => isSeconds(m.start) && isSeconds(m.end),
  final: (m) => isTimed(m) && isSeconds(m.duration),
  error: (m) => typeof m.code === "string" && typeof m.message === "string",
};

/**
 * The message in a text frame of the server; null for a type that is new to this page, which a
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

/** Text and times as single characters. @returns {{text: string, time: number}[]} */
export function characters({ text, times }) {
  return [...text].map((character, i) => ({ text: character, time: times[i] }));
}
