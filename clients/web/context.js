/** An audio context that runs; without a sound output, or where the browser holds it back, it never does. */

import { Failure } from "./failures.js";

const WITHIN = 3000; // ms

/** Let a context run, or throw Failure "audio-blocked". @param {AudioContext} context */
export async function running(context) {
  const waited = new Promise((done) => setTimeout(done, WITHIN));
  await Promise.race([context.resume(), waited]);
  if (context.state !== "running") throw new Failure("audio-blocked", `the sound is ${context.state}`);
}
