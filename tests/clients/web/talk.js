/**
 * Speak a 16-bit wav file into a server by the JavaScript client and print what it told, as JSON:
 * node --experimental-websocket talk.js ADDRESS FILE [SPEED] [PAUSE_AT]
 * The key is that of CORTADO_API_KEY, if there is one.
 */

import { readFileSync } from "node:fs";

import { Stream } from "../../../clients/web/stream.js";

const [address, file, speed = "0", pauseAt = "-1"] = process.argv.slice(2);
const HEAD = 44; // bytes of the wav file before its samples
const FRAME = 1280; // bytes
const told = { characters: [], endpoints: [], states: [], restarts: [] };
const wait = (ms) => new Promise((done) => setTimeout(done, ms));

const stream = new Stream(address, {
  characters: (some) => told.characters.push(...some.map(({ text, time }) => [text, time])),
  endpoint: ({ start, end }) => told.endpoints.push([start, end]),
  state: (state) => told.states.push(state),
  restarted: (seconds) => told.restarts.push(seconds),
}, { key: process.env.CORTADO_API_KEY });

await stream.open();
process.stderr.write("ready\n");
const sound = readFileSync(file).subarray(HEAD);
for (let at = 0, frame = 0; at < sound.length; at += FRAME, frame += 1) {
  stream.send(sound.subarray(at, at + FRAME));
  if (frame === Number(pauseAt)) {
    await stream.pause();
    await wait(300);
    stream.resume();
  }
  if (speed > 0) await wait(40 / speed);
}
const { duration } = await stream.end();
process.stdout.write(JSON.stringify({ ...told, duration }));
