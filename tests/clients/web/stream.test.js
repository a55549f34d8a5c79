/** The client's stream against a server that is played by hand: what no real one does on request. */

import assert from "node:assert/strict";
import { beforeEach, test } from "node:test";
import v8 from "node:v8";
import vm from "node:vm";

import { Failure } from "../../../clients/web/failures.js";
import { ReplayBuffer } from "../../../clients/web/replay-buffer.js";
import { Stream } from "../../../clients/web/stream.js";

const sockets = [];

/** A WebSocket whose other end is the test. */
class Socket {
  constructor(address) {
    this.address = address;
    this.bufferedAmount = 0;
    this.sent = [];
    this.closed = false;
    sockets.push(this);
  }

  send(data) {
    this.sent.push(typeof data === "string" ? JSON.parse(data) : data.length);
  }

  close() {
    this.closed = true;
  }

  /** The server speaks. */
  say(message) {
    this.onmessage?.({ data: JSON.stringify(message) });
  }

  greet(received = 0, more = {}) {
    this.onopen();
    this.say({ type: "ready", session: "s", model: "m", received, token: "t", ...more });
  }

  get bytes() {
    return this.sent.filter(Number.isInteger).reduce((sum, each) => sum + each, 0);
  }
}

const FRAME = new Uint8Array(1280); // 40 ms
const chars = (text, times, position = times.at(-1), confidences = times.map(() => 0.5)) =>
  ({ type: "chars", text, times, confidences, position });
const soon = (ms = 1) => new Promise((done) => setTimeout(done, ms));

async function opened(handlers = {}, options = {}, greeting = {}) {
  const stream = new Stream("ws://here/v1/stream", handlers, { WebSocket: Socket, ...options });
  const ready = stream.open();
  sockets[0].greet(0, greeting);
  await ready;
  return stream;
}

/** The socket of the next connection, once there is one. */
async function next(count) {
  for (let i = 0; sockets.length < count; i += 1) {
    assert.ok(i < 200, "no further connection");
    await soon(10);
  }
  return sockets[count - 1];
}

beforeEach(() => sockets.splice(0));

test("however much is sent at once, no message is larger than a quarter of a second", async () => {
  for (const [options, most] of [[{}, 8000], [{ sampleRate: 48000, encoding: "pcm_f32le" }, 48000]]) {
    sockets.splice(0);
    const stream = await opened({}, options);
    stream.send(new Uint8Array(400000));
    assert.equal(sockets[0].bytes, 400000);
    assert.equal(Math.max(...sockets[0].sent.filter(Number.isInteger)), most);
    stream.close();
  }
});

test("whoever waits for a stream that is closed gets a failure", async () => {
  const stream = await opened();
  const end = stream.end();
  stream.close();
  await assert.rejects(end, Failure);
  await assert.rejects(stream.pause(), Failure);
});

test("samples may be changed once they were handed over", async () => {
  const stream = await opened();
  const own = Uint8Array.of(1, 1, 1, 1);
  sockets[0].bufferedAmount = 1e9; // nothing leaves
  stream.send(own);
  own.fill(9);
  assert.deepEqual([...stream.replay.read(0, 2)], [1, 1, 1, 1]);
  stream.close();
});

test("words do not touch where a server began anew", async () => {
  const heard = [];
  const stream = await opened({ characters: (some) => heard.push(...some) }, {}, { token: null });
  stream.send(new Uint8Array(64000));
  sockets[0].say(chars("ab", [0.2, 0.4]));
  sockets[0].onclose({ code: 1006, reason: "" });
  (await next(2)).greet();
  sockets[1].say(chars("cd", [0.1, 0.2]));
  assert.equal(heard.map(({ text }) => text).join(""), "ab cd");
  assert.deepEqual(heard.map(({ time }) => Number(time.toFixed(2))), [0.2, 0.4, 0.4, 0.5, 0.6]);
  stream.close();
});

test("a server that closes because of a message's size is not tried again with the same one", async () => {
  const stream = await opened();
  stream.send(FRAME);
  sockets[0].onclose({ code: 1009, reason: "" });
  await soon(20);
  assert.equal(sockets.length, 1);
  assert.equal(stream.state, "failed");
});

test("the replay buffer gives back what was appended, until it is let go", () => {
  const buffer = new ReplayBuffer(2);
  for (let i = 0; i < 4; i += 1) buffer.append(Uint8Array.of(i, i, i, i, i, i));
  assert.equal(buffer.end, 12);
  assert.deepEqual([...buffer.read(4, 9)], [1, 1, 1, 1]);
  assert.deepEqual([...buffer.read(4, 1)], [1, 1]);
  assert.equal(buffer.read(12, 9), null);
  buffer.release(7);
  assert.equal(buffer.start, 6);
  assert.throws(() => buffer.read(5, 9), /expected a sample from 6 on, got 5/);
  buffer.release(12);
  assert.equal(buffer.start, 12);
  assert.throws(() => buffer.append(new Uint8Array(3)), /whole samples of 2 bytes, got 3/);
});

test("a stream asks to be kept, sends what it is given and ends with the final text", async () => {
  const found = [];
  const stream = await opened({ characters: (some) => found.push(...some) });
  assert.equal(sockets[0].sent[0].keep, true);
  stream.send(FRAME);
  const final = stream.end();
  assert.deepEqual(sockets[0].sent.slice(1), [1280, { type: "end" }]);
  sockets[0].say(chars("a", [0.04]));
  const rest = { ...chars("ab", [0.04, 0.08]), confidences: [0.5, 0.7] };
  sockets[0].say({ ...rest, type: "final", duration: 0.04, omitted: 0 });
  assert.deepEqual(await final, { duration: 0.04 });
  assert.deepEqual(found, [
    { text: "a", time: 0.04, confidence: 0.5 },
    { text: "b", time: 0.08, confidence: 0.7 },
  ]);
  assert.equal(stream.state, "done");
});

test("what is asked of the server is in its first message, and nothing that is not", async () => {
  const plain = (await opened(), sockets[0].sent[0]);
  assert.deepEqual(Object.keys(plain).sort(), ["encoding", "keep", "phrases", "sample_rate", "type"]);
  sockets.splice(0);
  await opened({}, { sampleRate: 48000, silenceMs: 400, alternatives: 3, phrases: ["ada"] });
  const { sample_rate, silence_ms, alternatives, phrases } = sockets[0].sent[0];
  assert.deepEqual([sample_rate, silence_ms, alternatives, phrases], [48000, 400, 3, ["ada"]]);
});

test("a lost stream is resumed by its token from the sample that the server wants", async () => {
  const stream = await opened();
  for (let i = 0; i < 10; i += 1) stream.send(FRAME);
  sockets[0].say(chars("ab", [0.04, 0.08]));
  sockets[0].say({ type: "endpoint", utterance: 0, start: 0.04, end: 0.08, position: 0.1 });
  sockets[0].onclose({ code: 1006, reason: "" });
  stream.send(FRAME); // spoken while there is no connection
  const second = await next(2);
  second.greet(4 * 640 + 100);
  await soon();
  assert.deepEqual(second.sent[0], { type: "resume", token: "t", characters: 2, utterances: 1 });
  assert.equal(second.bytes, 7 * 1280 - 200);
  stream.close();
});

test("where the server forgot the stream, a new one begins after the last character", async () => {
  const found = [];
  const restarts = [];
  const stream = await opened({
    characters: (some) => found.push(...some),
    restarted: (seconds) => restarts.push(seconds),
  });
  for (let i = 0; i < 100; i += 1) stream.send(FRAME);
  sockets[0].say(chars("ab", [0.4, 0.8], 1));
  sockets[0].onclose({ code: 1006, reason: "" });
  const second = await next(2);
  second.onopen();
  second.say({ type: "error", code: "unknown_stream", message: "forgotten" });
  const third = await next(3);
  third.greet(0, { token: "u" });
  await soon();
  assert.equal(third.sent[0].type, "start");
  assert.equal(third.bytes, 100 * 1280 - 0.8 * 32000);
  third.say(chars("c", [0.2]));
  assert.deepEqual(found.at(-1), { text: "c", time: 1, confidence: 0.5 });
  assert.deepEqual(restarts, [0.8]);
  third.onclose({ code: 1006, reason: "" });
  const fourth = await next(4);
  fourth.greet(3200);
  await soon();
  assert.deepEqual(fourth.sent[0], { type: "resume", token: "u", characters: 1, utterances: 0 });
  assert.equal(fourth.bytes, 100 * 1280 - 0.8 * 32000 - 6400);
  stream.close();
});

test("where the server keeps no streams, a new one begins as well, once", async () => {
  const restarts = [];
  const stream = new Stream("ws://here/v1/stream", {
    restarted: (seconds) => restarts.push(seconds),
  }, { WebSocket: Socket });
  const ready = stream.open();
  sockets[0].greet(0, { token: undefined });
  await ready;
  for (let i = 0; i < 100; i += 1) stream.send(FRAME);
  sockets[0].say(chars("ab", [0.4, 0.8], 1));
  sockets[0].onclose({ code: 1006, reason: "" });
  const second = await next(2);
  second.onopen();
  second.onclose({ code: 1006, reason: "" });
  const third = await next(3);
  third.greet(0, { token: undefined });
  await soon();
  assert.equal(third.sent[0].type, "start");
  assert.equal(third.bytes, 100 * 1280 - 0.8 * 32000);
  assert.deepEqual(restarts, [0.8]);
  stream.close();
});

test("a server that drops every stream at once is tried less and less often", { timeout: 9000 }, async () => {
  for (const token of [undefined, "t"]) {
    sockets.length = 0;
    const states = [];
    const stream = await opened({ state: (state) => states.push(state) }, {}, { token });
    const until = Date.now() + 1500;
    let dropped = 0;
    while (Date.now() < until) {
      await soon(5);
      if (dropped === sockets.length) continue;
      const socket = sockets[dropped];
      if (dropped) socket.greet(0, { token });
      await soon();
      socket.onclose?.({ code: 1011, reason: "" });
      dropped += 1;
    }
    assert.ok(dropped <= 5, `${dropped} connections`);
    stream.close();
  }
});

test("a pause while the key is fetched opens no connection", async () => {
  let give;
  const stream = new Stream("ws://here/v1/stream", {}, {
    WebSocket: Socket,
    key: () => new Promise((done) => { give = done; }),
  });
  const ready = stream.open();
  give("k");
  await next(1);
  sockets[0].greet();
  await ready;
  give = null;
  sockets[0].onclose({ code: 1006, reason: "" });
  while (!give) await soon();
  await stream.pause();
  give("k");
  await soon(20);
  assert.equal(stream.state, "paused");
  assert.equal(sockets.length, 1);
  stream.close();
});

test("a server that greets and closes at once is connected to again", async () => {
  const stream = new Stream("ws://here/v1/stream", {}, { WebSocket: Socket });
  stream.send(FRAME);
  const ready = stream.open();
  sockets[0].greet();
  sockets[0].say({ type: "error", code: "shutting_down", message: "restart" }); // in the same task, as of ws
  await ready;
  (await next(2)).greet();
  await soon();
  assert.equal(stream.state, "open");
  assert.deepEqual(sockets[1].sent.map((each) => each.type ?? each), ["start", 1280]);
  stream.close();
});

test("a pause that ends while the key is fetched leaves one connection, and the stream open", async () => {
  const gives = [];
  const key = () => new Promise((done) => gives.push(done));
  const stream = new Stream("ws://here/v1/stream", {}, { WebSocket: Socket, key });
  const ready = stream.open();
  gives[0]("k");
  (await next(1)).greet();
  await ready;
  sockets[0].onclose({ code: 1006, reason: "" });
  while (gives.length < 2) await soon();
  await stream.pause();
  stream.resume();
  while (gives.length < 3) await soon();
  gives[2]("k");
  (await next(2)).greet();
  gives[1]("k");
  await soon(20);
  assert.equal(sockets.length, 2);
  assert.equal(stream.state, "open");
  stream.close();
});

test("a pause that ends at once, before the server greets, leaves one connection", async () => {
  const stream = await opened();
  sockets[0].onclose({ code: 1006, reason: "" });
  await next(2);
  stream.pause();
  stream.resume();
  const third = await next(3);
  await soon(600); // a slow handshake
  third.greet();
  await soon();
  assert.deepEqual(sockets.map(({ closed }) => closed), [true, true, false]);
  assert.equal(stream.state, "open");
  stream.close();
});

test("a pause suspends the stream, and what it said is what it goes on with", async () => {
  const stream = await opened();
  stream.send(FRAME);
  const paused = stream.pause();
  assert.deepEqual(sockets[0].sent.at(-1), { type: "suspend" });
  sockets[0].say({ type: "suspended", state: "S", received: 640, characters: 0 });
  await paused;
  assert.ok(sockets[0].closed);
  stream.resume();
  const second = await next(2);
  second.greet(640);
  await soon();
  assert.equal(second.sent[0].state, "S");
  stream.send(FRAME);
  assert.equal(second.bytes, 1280);
  stream.close();
});

test("a pause outlives the loss of its connection, and an end ends a pause", async () => {
  const stream = await opened();
  stream.send(FRAME);
  const paused = stream.pause();
  sockets[0].onclose({ code: 1006, reason: "" });
  await paused;
  assert.equal(stream.state, "paused");
  const final = stream.end();
  const second = await next(2);
  second.greet(640);
  await soon();
  assert.deepEqual(second.sent.map((each) => each.type), ["resume", "end"]);
  second.say({ type: "final", text: "", times: [], duration: 0.04, omitted: 0 });
  await final;
});

test("an end that comes while a pause is being made takes one connection more, and no third", { timeout: 5000 }, async () => {
  const stream = await opened();
  stream.send(FRAME);
  stream.pause();
  stream.resume(); // as Stop does
  const final = stream.end();
  sockets[0].say({ type: "suspended", state: "S", received: 640, characters: 0 });
  const second = await next(2);
  await soon(600); // a slow handshake
  second.greet(640);
  await soon();
  assert.deepEqual(second.sent.map((each) => each.type), ["resume", "end"]);
  second.say({ type: "final", text: "", times: [], duration: 0.04, omitted: 0 });
  await final;
  assert.equal(sockets.length, 2);
});

test("every pause that is asked for is answered, and the last word holds", { timeout: 5000 }, async () => {
  const stream = await opened();
  const first = stream.pause();
  stream.resume();
  const second = stream.pause();
  sockets[0].say({ type: "suspended", state: "S", received: 0, characters: 0 });
  await Promise.all([first, second]);
  await soon();
  assert.equal(stream.state, "paused");
  assert.equal(sockets.length, 1);
  const final = stream.end();
  const late = stream.pause(); // too late: it ends
  (await next(2)).greet();
  sockets[1].say({ type: "final", text: "", times: [], duration: 0, omitted: 0 });
  await Promise.all([final, late, stream.pause()]);
});

test("hours of waiting for room leave nothing behind", async () => {
  v8.setFlagsFromString("--expose-gc");
  const collect = vm.runInNewContext("gc");
  const stream = await opened();
  collect();
  const before = process.memoryUsage().heapUsed;
  for (let i = 0; i < 20_000; i += 1) {
    sockets[0].bufferedAmount = 1e9;
    stream.send(FRAME);
    const drained = stream.drained();
    sockets[0].bufferedAmount = 0;
    sockets[0].sent.length = 0;
    sockets[0].say({ type: "acknowledged", received: stream.replay.end });
    await drained;
  }
  collect();
  assert.ok(process.memoryUsage().heapUsed - before < 2e6);
  stream.close();
});

test("whoever waits for room is told that the stream has failed", async () => {
  for (const [ends, code] of [[(stream) => stream.close(), "dropped"], [() => sockets[0].onclose({ code: 1009 }), "message_too_big"]]) {
    sockets.splice(0);
    const stream = await opened();
    sockets[0].bufferedAmount = 1e9;
    stream.send(FRAME);
    const drained = stream.drained();
    ends(stream);
    await assert.rejects(drained, { code });
  }
});

test("an end that was said over a lost connection is said again", async () => {
  const stream = await opened();
  stream.send(FRAME);
  const final = stream.end();
  sockets[0].onclose({ code: 1006, reason: "" });
  const second = await next(2);
  second.onopen();
  second.say({ type: "error", code: "unknown_stream", message: "it was ended" });
  const third = await next(3);
  third.greet();
  await soon();
  assert.deepEqual(third.sent.slice(1), [1280, { type: "end" }]);
  third.say({ type: "final", text: "a", times: [0.04], duration: 0.04, omitted: 0 });
  await final;
});

test("what no second attempt can mend ends the stream", async () => {
  const states = [];
  const stream = await opened({ state: (state) => states.push(state) });
  const failed = assert.rejects(stream.failed, (failure) => failure instanceof Failure);
  sockets[0].say({ type: "error", code: "taken_over", message: "by another page" });
  await failed;
  assert.deepEqual(states, ["connecting", "open", "failed"]);
  stream.send(FRAME); // nothing happens
  assert.equal(sockets.length, 1);
});

test("the first connection is tried once, and its failure is told", async () => {
  const stream = new Stream("ws://here/v1/stream", {}, { WebSocket: Socket });
  const ready = stream.open();
  sockets[0].onopen();
  sockets[0].say({ type: "error", code: "too_many_streams", message: "full" });
  await assert.rejects(ready, { code: "too_many_streams" });
  assert.equal(stream.state, "failed");
});

test("sound waits here, not in the socket, while the socket has enough", async () => {
  const stream = await opened();
  sockets[0].bufferedAmount = 33_000; // more than a second
  for (let i = 0; i < 50; i += 1) stream.send(FRAME);
  assert.equal(sockets[0].bytes, 0);
  assert.ok(stream.waiting > 3);
  let drained = false;
  stream.drained().then(() => (drained = true));
  await soon(50);
  assert.equal(drained, false);
  sockets[0].bufferedAmount = 0;
  await soon(50);
  assert.equal(sockets[0].bytes, 50 * 1280);
  assert.ok(drained);
  stream.close();
});

test("a socket that passes nothing on for long is given up, a slow one is not", async (t) => {
  let clock = performance.now();
  t.mock.method(performance, "now", () => clock);
  const stream = await opened();
  const [socket] = sockets;
  socket.bufferedAmount = 33_000;
  for (let i = 0; i < 1000; i += 1) stream.send(FRAME);
  const second = () => {
    clock += 1000;
    return soon(60);
  };
  for (let i = 0; i < 30; i += 1) {
    const before = socket.bytes;
    socket.send = (data) => {
      socket.sent.push(data.length);
      socket.bufferedAmount = 33_000; // full again after every frame, to the byte
    };
    socket.bufferedAmount = 0;
    await second();
    assert.equal(socket.bytes - before, 1280, `second ${i}`);
  }
  assert.equal(stream.state, "open");
  for (let i = 0; i < 22 && stream.state === "open"; i += 1) await second();
  assert.equal(stream.state, "lost");
  stream.close();
});

test("ten minutes without any connection are held, more end the stream", async () => {
  const stream = await opened();
  sockets[0].onclose({ code: 1006, reason: "" });
  const minute = new Uint8Array(60 * 32_000);
  for (let i = 0; i < 10; i += 1) stream.send(minute);
  assert.equal(stream.waiting, 600);
  const failed = assert.rejects(stream.failed, { code: "too-slow" });
  stream.send(FRAME);
  stream.send(minute);
  await failed;
});

test("sound that was sent and is long past is let go, though no character came", async () => {
  const stream = await opened();
  const minute = new Uint8Array(60 * 32_000);
  for (let i = 0; i < 30; i += 1) stream.send(minute);
  assert.equal(stream.state, "open");
  assert.ok(stream.replay.end - stream.replay.start <= 11 * 60 * 16_000);
  stream.close();
});

test("a message that is none ends the stream; one of a new type does not", async () => {
  const stream = await opened();
  sockets[0].say({ type: "weather" });
  assert.equal(stream.state, "open");
  const failed = assert.rejects(stream.failed, { code: "not-understood" });
  sockets[0].onmessage({ data: "hello" });
  await failed;
});

test("a server that stores the stream says what need not be held", async () => {
  const stream = await opened();
  for (let i = 0; i < 50; i += 1) stream.send(FRAME); // 2 s
  sockets[0].say({ type: "acknowledged", received: 6400 });
  assert.equal(stream.replay.start, 6400);
  sockets[0].say(chars("a", [1.6]));
  assert.equal(stream.replay.start, 6400); // the server would write it again
  sockets[0].say({ type: "acknowledged", received: 32_000 });
  assert.equal(stream.replay.start, 32_000);
});

test("samples that would be heard as noise, and what is none, are refused", async () => {
  const plain = await opened();
  const bytes = (length) => [new ArrayBuffer(length), new Uint8Array(length), Buffer.alloc(length), new DataView(new ArrayBuffer(length))];
  for (const wrong of [new Float32Array(4), new Float64Array(4), new Int32Array(4), "hello", [1, 2], undefined]) {
    assert.throws(() => plain.send(wrong), /TypeError: expected bytes or Int16Array for pcm_s16le, got/);
  }
  for (const right of [new Int16Array(2), ...bytes(4)]) plain.send(right);
  assert.equal(plain.replay.end, 10);
  plain.close();
  sockets.splice(0);
  const floats = await opened({}, { encoding: "pcm_f32le" });
  assert.throws(() => floats.send(new Int16Array(4)), /got Int16Array/);
  for (const right of [new Float32Array(1), ...bytes(4)]) floats.send(right);
  assert.equal(floats.replay.end, 5);
  floats.close();
});

test("a stream is opened once, and before it is ended", async () => {
  const stream = new Stream("ws://here/v1/stream", {}, { WebSocket: Socket });
  await assert.rejects(stream.end(), /expected open\(\) before end\(\)/);
  await assert.rejects(stream.pause(), /expected an open stream to pause, got one that is new/);
  const ready = stream.open();
  await assert.rejects(stream.pause(), /got one that is connecting/);
  await assert.rejects(stream.open(), /expected a new stream to open, got one that is connecting/);
  sockets[0].greet();
  await ready;
  assert.equal(sockets.length, 1);
  stream.close();
  await assert.rejects(stream.open(), /got one that is closed/);
});

test("an error of a handler is the program's own, and the stream ends all the same", async () => {
  const reported = [];
  const listeners = process.listeners("uncaughtException");
  process.removeAllListeners("uncaughtException");
  process.on("uncaughtException", (error) => reported.push(error.message));
  const stream = await opened({
    characters: () => {
      throw new Error("mine");
    },
  });
  stream.send(FRAME);
  const final = stream.end();
  sockets[0].say(chars("a", [0.04]));
  sockets[0].say({ type: "final", text: "ab", times: [0.04, 0.04], omitted: 0, duration: 0.04 });
  await final;
  assert.equal(stream.state, "done");
  await soon();
  assert.deepEqual(reported, ["mine", "mine"]);
  process.removeAllListeners("uncaughtException");
  for (const listener of listeners) process.on("uncaughtException", listener);
});

test("a key may have space around it, as of a file, and one that none can be is told like a wrong one", async () => {
  class Keyed extends Socket {
    constructor(address, protocols) {
      super(address);
      this.protocols = protocols;
    }
  }
  const stream = await opened({}, { WebSocket: Keyed, key: " abc-1\n" });
  assert.deepEqual(sockets[0].protocols, ["bearer", "abc-1"]);
  stream.close();
  const wrong = new Stream("ws://here/", {}, { WebSocket: Keyed, key: "a=b c" });
  await assert.rejects(wrong.open(), { code: "unauthorized" });
  assert.equal(wrong.state, "failed");
});

test("a failure to connect names the address, without a password", async () => {
  const stream = new Stream("ws://me:secret@127.0.0.1:9/v1/stream", {}, { WebSocket: Socket });
  const opening = assert.rejects(stream.open(), { code: "unreachable", detail: "ws://127.0.0.1:9/v1/stream" });
  sockets[0].onerror();
  await opening;
});
