/** One stream to the server over a WebSocket, from `ready` to `final`. */

import { Failure, closeFailure } from "./failures.js";
import { END, START, characters, parse } from "./messages.js";
import { BYTES_PER_SECOND } from "./pcm.js";
import { answers } from "./reach.js";

const READY_WITHIN = 15_000; // ms
const FINAL_WITHIN = 60_000; // ms since the last message: the server may have much to catch up with
const SLOW = 1; // seconds of sound waiting in the socket: say so
const TOO_SLOW = 10; // seconds: end it, so that memory does not grow

/** The address of the stream beside the page. */
export function streamAddress(page) {
  const address = new URL("v1/stream", page);
  address.protocol = address.protocol === "https:" ? "wss:" : "ws:";
  address.search = "";
  address.hash = "";
  return address;
}

/** "ok", "slow" or "too-slow" for that many bytes that wait to be sent. */
export function pressure(bufferedBytes) {
  const seconds = bufferedBytes / BYTES_PER_SECOND;
  return seconds > TOO_SLOW ? "too-slow" : seconds > SLOW ? "slow" : "ok";
}

export class Connection {
  /**
   * @param {(characters: {text: string, time: number}[]) => void} oncharacters
   * @param {(endpoint: {start: number, end: number}) => void} onendpoint after an utterance
   */
  constructor(address, oncharacters, onendpoint = () => {}) {
    this.oncharacters = oncharacters;
    this.onendpoint = onendpoint;
    this.address = address;
    this.opened = false;
    this.ended = false;
    this.socket = new WebSocket(address);
    this.socket.binaryType = "arraybuffer";
    this.ready = deferred();
    this.final = deferred();
    this.failed = deferred(); // never fulfilled: rejects with the Failure that ends the stream
    this.socket.onopen = () => {
      this.opened = true;
      this.socket.send(START);
    };
    this.socket.onmessage = (event) => this.#receive(event.data);
    this.socket.onclose = (event) => this.#closed(event);
    this.#expect(READY_WITHIN);
  }

  /** Send the bytes of a frame, and say how the connection keeps up. */
  send(bytes) {
    if (this.socket.readyState !== WebSocket.OPEN) return "ok"; // `failed` tells why
    this.socket.send(bytes);
    const state = pressure(this.socket.bufferedAmount);
    if (state === "too-slow") this.#fail(new Failure("too-slow"));
    return state;
  }

  /** Wait until less than a second of sound is waiting: for a source that need not keep time. */
  async drained() {
    while (pressure(this.socket.bufferedAmount) !== "ok") {
      // A WebSocket has no event for this, so the clock must do.
      await Promise.race([new Promise((done) => setTimeout(done, 20)), this.failed.promise]);
    }
  }

  /** Say that the sound has ended, and give the final message. */
  end() {
    if (this.socket.readyState === WebSocket.OPEN) this.socket.send(END);
    this.ended = true;
    this.#expect(FINAL_WITHIN);
    return Promise.race([this.final.promise, this.failed.promise]);
  }

  close() {
    clearTimeout(this.timer);
    this.socket.onclose = null;
    this.socket.onmessage = null;
    this.socket.close();
  }

  #expect(milliseconds) {
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.#fail(new Failure("no-answer")), milliseconds);
  }

  #receive(data) {
    let message;
    try {
      message = parse(data);
    } catch (failure) {
      this.#fail(failure);
      return;
    }
    if (message?.type === "ready") {
      clearTimeout(this.timer);
      this.ready.resolve(message);
    } else if (message?.type === "chars") {
      if (this.ended) this.#expect(FINAL_WITHIN);
      this.oncharacters(characters(message));
    } else if (message?.type === "endpoint") {
      if (this.ended) this.#expect(FINAL_WITHIN);
      this.onendpoint(message);
    } else if (message?.type === "final") {
      this.final.resolve(message);
    } else if (message?.type === "error") {
      this.#fail(new Failure(message.code, message.message));
    }
  }

  async #closed(event) {
    if (this.opened) return this.#fail(closeFailure(event.code, event.reason));
    // A browser does not tell a refusal from a server that is gone; asking it in plain HTTP does.
    const code = (await answers(this.address)) ? "refused" : "unreachable";
    return this.#fail(new Failure(code));
  }

  #fail(failure) {
    this.failed.reject(failure);
    this.close();
  }
}

/** A promise with its two ends in hand; a rejection that nobody waits for is no error. */
function deferred() {
  const parts = {};
  parts.promise = new Promise((resolve, reject) => Object.assign(parts, { resolve, reject }));
  parts.promise.catch(() => {});
  return parts;
}
