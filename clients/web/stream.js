/**
 * A stream of speech to a Cortado server, for browsers and for Node.
 *
 *     import { Stream } from "cortado-asr"; // on a page: from "./stream.js"
 *
 *     const stream = new Stream(address, {
 *       characters: (some) => process.stdout.write(some.map((each) => each.text).join("")),
 *     });
 *     await stream.open();
 *     stream.send(pcm); // 16-bit samples at 16 kHz, any number at a time
 *     await stream.end();
 *
 * It loses nothing when its connection is lost. It connects again, goes on where the server
 * stopped hearing, and sends what was spoken in between. Where the server cannot go on, because it
 * was restarted, a new stream begins after the last character that came.
 * docs/protocol.md describes the messages, stream.d.ts the types.
 */

import { Connection } from "./connection.js";
import { Failure } from "./failures.js";
import { END, SUSPEND } from "./messages.js";
import { Part } from "./part.js";
import { ReplayBuffer } from "./replay-buffer.js";
import { bytesOf, sampleBytes } from "./samples.js";

const MODEL_RATE = 16000; // Hz
const FINAL_WITHIN = 60; // seconds since the last message: the server may have much to catch up with
const MESSAGE = 0.25; // seconds of sound in one message at most
const SEND_AHEAD = 1; // seconds of sound that wait in the socket; the rest waits here
const REPLAY = 600; // seconds of sound that are held at most, and for how long is tried again
const STEADY_AFTER = 10; // seconds that a connection has to last to count as a good one
const BACKOFF = [0, 0.25, 0.5, 1, 2, 4]; // seconds before each attempt, the last for all others
const PUMP = 20; // ms; a WebSocket has no event for room in it, so the clock must do

// The server cannot go on with this stream; it may begin another.
const GONE = new Set(["unknown_stream", "invalid_state", "stream_too_long"]);
// Trying again would end in the same way.
const FATAL = new Set([
  "unauthorized",
  "taken_over",
  "invalid_message",
  "unexpected_message",
  "unsupported_encoding",
  "unsupported_sample_rate",
  "invalid_audio",
  "message_too_big",
  "not-understood",
]);

export class Stream {
  #connection = null;
  #welcome = null; // {resolve, reject} until the server is ready
  #live = false; // sound can be sent
  #cursor = 0; // the next sample to send
  #last = ""; // what to say after the last sample: end or suspend
  #said = false; // it was
  #goesOn = false; // the pause that is being made is over once it is made
  #recovery = 0; // counts them: a pause and its end may begin one while another still waits
  #attempt = 0;
  #goodAt = 0;
  #timers = { pump: null, steady: null, backoff: null };
  #retry = () => {};
  #drained = []; // resolvers of those who wait for room
  #final = deferred();
  #failed = deferred();
  #paused = deferred();

  /**
   * @param {string | URL} address of /v1/stream, by the scheme ws or wss
   * @param {import("./stream.js").Handlers} [handlers]
   * @param {import("./stream.js").Options} [options]
   */
  constructor(address, handlers = {}, options = {}) {
    const { sampleRate = MODEL_RATE, encoding = "pcm_s16le", keep = true } = options;
    if (!sampleBytes(encoding)) throw new RangeError(`expected pcm_s16le or pcm_f32le, got ${encoding}`);
    this.address = new URL(address);
    this.handlers = handlers;
    this.sampleRate = sampleRate;
    const { silenceMs, phrases = [], alternatives = 0 } = options;
    const silence = silenceMs !== undefined && { silence_ms: silenceMs };
    this.asked = { encoding, keep, phrases, ...silence, ...(alternatives && { alternatives }) };
    this.key = options.key ?? "";
    this.WebSocket = options.WebSocket ?? globalThis.WebSocket;
    if (!this.WebSocket) throw new TypeError("expected a WebSocket constructor in the options, got none");
    /** @type {import("./stream.js").State} */
    this.state = "new";
    this.part = new Part(0, sampleRate);
    this.replay = new ReplayBuffer(sampleBytes(encoding));
  }

  /** Connect, once; what goes wrong from then on is mended. @returns {Promise<import("./stream.js").Ready>} */
  async open() {
    if (this.state !== "new") throw new Error(`expected a new stream to open, got one that is ${this.state}`);
    this.#enter("connecting");
    try {
      const ready = await this.#connect();
      if (this.state === "connecting") this.#goOn(ready); // it may be lost already
      return ready;
    } catch (failure) {
      if (this.state !== "closed") this.#fail(failure);
      throw failure;
    }
  }

  /** Send samples: whole ones, in the encoding. @param {ArrayBuffer | ArrayBufferView} data */
  send(data) {
    const bytes = bytesOf(data, this.asked.encoding);
    if (this.#over || this.#last === END) return;
    this.replay.append(bytes);
    const surplus = this.replay.end - REPLAY * this.sampleRate;
    if (surplus > this.replay.start) {
      if (surplus > this.#cursor) return void this.#fail(new Failure("too-slow"));
      this.replay.release(surplus);
    }
    this.#pump();
  }

  /** Seconds of sound that have not left yet. */
  get waiting() {
    const here = (this.replay.end - this.#cursor) / this.sampleRate;
    return here + (this.#live ? this.#inSocket : 0);
  }

  /** Seconds of the stream that were sent. */
  get sent() {
    return this.#cursor / this.sampleRate;
  }

  /** Seconds of the stream up to which everything is decided, for certain. */
  get decided() {
    return this.part.decided / this.sampleRate;
  }

  /** Wait until little is waiting: for a source that need not keep time. */
  drained() {
    if (this.#over || this.#empty) return Promise.resolve();
    return new Promise((done) => this.#drained.push(done)); // a race with `failed` would be kept by it
  }

  /** Rejects with the Failure that ends the stream; never fulfilled. */
  get failed() {
    return this.#failed.promise;
  }

  /** Give the slot back until resume(); sound that is sent meanwhile waits. */
  async pause() {
    if (this.state === "new" || this.state === "connecting") {
      throw new Error(`expected an open stream to pause, got one that is ${this.state}`);
    }
    if (this.state === "paused") return undefined;
    if (this.#last === END) return this.end().then(() => undefined);
    this.#goesOn = false;
    if (this.#last === SUSPEND) return this.#untilPaused; // it was asked for already
    this.#paused = deferred();
    // Only a stream at the model's own rate can be suspended; of others the token is what is left.
    if (this.state === "open" && this.sampleRate === MODEL_RATE) this.#conclude(SUSPEND);
    else if (this.state === "open" || this.state === "lost") this.#rest();
    return this.#untilPaused;
  }

  /** Go on after pause(). */
  resume() {
    if (this.state === "paused") this.#recover();
    else this.#goesOn = this.#last === SUSPEND;
  }

  /** Say that the sound has ended, and wait for the last characters. */
  async end() {
    if (this.state === "new") throw new Error("expected open() before end(), got a new stream");
    if (this.state === "paused") this.#recover();
    this.#conclude(END);
    return Promise.race([this.#final.promise, this.failed]);
  }

  /** While the connection is lost: try now, for there is news of the network. */
  retry() {
    this.#retry();
  }

  /** Give the stream up; whoever still waits for it gets a Failure. */
  close() {
    if (!this.#over) this.#enter("closed");
    this.#failed.reject(new Failure("dropped"));
    this.#release();
  }

  get #untilPaused() {
    return Promise.race([this.#paused.promise, this.failed]);
  }

  get #over() {
    return this.state === "done" || this.state === "failed" || this.state === "closed";
  }

  get #inSocket() {
    return this.#connection.waiting / (this.sampleRate * this.replay.sampleBytes);
  }

  get #empty() {
    return this.#live && this.#cursor === this.replay.end && this.#inSocket <= SEND_AHEAD;
  }

  #enter(state, reason) {
    this.state = state;
    this.#tell("state", state, reason);
  }

  /** Call a handler. An error of it is the program's own, and reported as such; the stream goes on. */
  #tell(name, ...news) {
    try {
      this.handlers[name]?.(...news);
    } catch (error) {
      queueMicrotask(() => {
        throw error;
      });
    }
  }

  /** Open a connection; gives the server's greeting. */
  async #connect() {
    const { key: given } = this;
    const mine = this.#recovery;
    const key = (typeof given === "function" ? await given() : given) ?? "";
    const wanted = this.state === "connecting" || this.state === "lost";
    if (!wanted || mine !== this.#recovery) throw new Failure("dropped"); // meanwhile
    this.#connection?.close();
    this.#connection = new Connection(
      this.WebSocket, this.address, key.trim(), this.part.hello(this.asked),
      (message) => this.#receive(message), (failure) => this.#drop(failure),
    );
    this.#welcome = deferred();
    return this.#welcome.promise;
  }

  /** The server is ready: send from where it stopped hearing. */
  #goOn(ready) {
    const cursor = this.part.base + ready.received;
    if (cursor < this.replay.start) throw new Failure("unknown_stream", "its sound is gone");
    this.part.begun = true;
    this.part.token = ready.token ?? null;
    this.part.state = null;
    this.#cursor = cursor;
    this.#live = true;
    this.#said = false;
    this.#timers.steady = setTimeout(() => this.#good(), STEADY_AFTER * 1000);
    this.#enter("open");
    this.#pump();
  }

  /** Pass on what there is room for, then the last word if it is due. */
  #pump() {
    clearTimeout(this.#timers.pump);
    if (!this.#live || this.#said) return;
    while (this.#cursor < this.replay.end) {
      if (this.#inSocket > SEND_AHEAD) return this.#pumpLater();
      const bytes = this.replay.read(this.#cursor, Math.round(MESSAGE * this.sampleRate));
      this.#connection.send(bytes);
      this.#cursor += bytes.length / this.replay.sampleBytes;
    }
    if (this.#last) {
      this.#said = true;
      this.#connection.send(this.#last);
      this.#connection.expect(FINAL_WITHIN);
    }
    if (!this.#empty) return this.#pumpLater();
    for (const done of this.#drained.splice(0)) done();
  }

  #pumpLater() {
    this.#timers.pump = setTimeout(() => this.#pump(), PUMP);
    this.#connection.watch();
  }

  #conclude(word) {
    this.#last = word;
    this.#pump();
  }

  #receive(message) {
    if (this.#said) this.#connection.expect(FINAL_WITHIN);
    const act = {
      ready: () => this.#greeted(message),
      chars: () => this.#heard(message),
      acknowledged: () => this.#acknowledged(message),
      endpoint: () => this.#utterance(message),
      final: () => this.#finish(message),
      suspended: () => this.#suspended(message),
      error: () => this.#drop(new Failure(message.code, message.message)),
    }[message?.type];
    act?.();
    this.#pump(); // a tab that is hidden hears messages, while its timers wait
  }

  #greeted(ready) {
    this.#welcome?.resolve(ready);
    this.#welcome = null;
  }

  #heard(message) {
    this.#good();
    const found = this.part.heard(message); // also where nobody wants them
    this.#tell("characters", found);
    this.#letGo();
  }

  #utterance(message) {
    const utterance = this.part.ended(message);
    this.#tell("endpoint", utterance);
    this.#letGo();
  }

  #acknowledged(message) {
    this.part.acknowledged(message);
    this.#letGo();
  }

  /** What is stored, or else decided, need not be sent again; what is on its way may have to be. */
  #letGo() {
    const enough = this.part.stored ?? this.part.decided;
    const sample = Math.min(enough, this.#cursor, this.replay.end);
    if (sample > this.replay.start) this.replay.release(sample);
  }

  #finish(message) {
    const missed = this.part.missed(message);
    if (missed.text) this.#heard(missed);
    this.#enter("done");
    const { texts } = message;
    this.#final.resolve({ duration: this.replay.end / this.sampleRate, ...(texts && { texts }) });
    this.#paused.resolve(); // the end came before the pause
    this.#release();
  }

  #suspended({ state }) {
    this.part.state = state;
    this.part.token = null;
    this.#rest();
  }

  /** Be without a connection until resume(). */
  #rest() {
    this.#release();
    if (this.#last === SUSPEND) this.#last = "";
    this.#good(); // however long the pause is: attempts count from its end
    this.#enter("paused");
    this.#paused.resolve();
    if (this.#last === END || this.#goesOn) this.#recover(); // in the meantime it was ended or resumed
  }

  #good() {
    this.#attempt = 0;
    this.#goodAt = now();
  }

  /** This connection is over. */
  #drop(failure) {
    const greeting = this.#welcome !== null;
    this.#release(failure);
    if (greeting || this.#over) return undefined; // who waits for the greeting knows
    if (this.#last === SUSPEND && !FATAL.has(failure.code)) return this.#rest();
    if (FATAL.has(failure.code)) return this.#fail(failure);
    return this.#recover(failure);
  }

  /** Connect again until it works, begin anew where the server cannot go on, or give up. */
  async #recover(reason) {
    const mine = ++this.#recovery;
    const isOver = () => this.state !== "lost" || mine !== this.#recovery;
    if (this.#attempt === 0) this.#goodAt = now();
    this.#enter("lost", reason);
    let failure = reason;
    while (!isOver()) {
      await this.#backOff();
      if (isOver()) return;
      if (this.part.begun && !this.part.resumable) this.#startAnew(); // the server keeps none
      try {
        const ready = await this.#connect();
        if (!isOver()) this.#goOn(ready);
        return;
      } catch (error) {
        failure = error;
      }
      if (isOver()) return;
      if (FATAL.has(failure.code) || now() - this.#goodAt > REPLAY) this.#fail(failure);
      else if (GONE.has(failure.code) && this.part.resumable) this.#startAnew();
    }
  }

  async #backOff() {
    const wait = BACKOFF[Math.min(this.#attempt, BACKOFF.length - 1)];
    this.#attempt += 1;
    if (!wait) return;
    await new Promise((done) => {
      this.#retry = done;
      this.#timers.backoff = setTimeout(done, wait * 1000 * (0.75 + Math.random() / 2));
    });
    clearTimeout(this.#timers.backoff);
  }

  #startAnew() {
    this.#release();
    this.part = new Part(Math.max(this.part.decided, this.replay.start), this.sampleRate);
    this.#cursor = this.part.base;
    this.#tell("restarted", this.part.base / this.sampleRate);
  }

  #fail(failure) {
    if (this.#over) return;
    this.#enter("failed", failure);
    this.#failed.reject(failure);
    this.#release();
  }

  /** Let go of the connection and of whoever waits for it. */
  #release(failure = new Failure("dropped")) {
    for (const timer of Object.values(this.#timers)) clearTimeout(timer);
    this.#retry();
    this.#live = false;
    this.#welcome?.reject(failure);
    this.#welcome = null;
    this.#connection?.close();
    this.#connection = null;
    if (!this.#over) return;
    for (const done of this.#drained.splice(0)) done(this.state === "done" ? undefined : this.failed);
  }
}

const now = () => performance.now() / 1000;

/** A promise with its two ends in hand; a rejection that nobody waits for is no error. */
function deferred() {
  const parts = {};
  parts.promise = new Promise((resolve, reject) => Object.assign(parts, { resolve, reject }));
  parts.promise.catch(() => {});
  return parts;
}
