/** One connection to a server: opened with a first message, and lost in one of many ways. */

import { Failure, closeFailure } from "./failures.js";
import { parse } from "./messages.js";
import { refusal } from "./reach.js";

const TOKEN = /^[\w!#$%&'*+.^`|~-]*$/; // what a subprotocol may be
const READY_WITHIN = 15; // seconds
const STALLED_AFTER = 20_000; // ms in which the socket passed nothing on: the connection is dead

export class Connection {
  #socket; // null once it is closed
  #lost;
  #patience = null; // the timer that runs until something comes
  #stall = { amount: 0, since: 0 };

  /**
   * @param {typeof WebSocket} Socket
   * @param {URL} address
   * @param {string} key the server's, or ""
   * @param {string} hello the first message
   * @param {(message: any) => void} onmessage called with null for a type that is new
   * @param {(failure: Failure) => void} onlost called once at most, and never after close()
   */
  constructor(Socket, address, key, hello, onmessage, onlost) {
    if (!TOKEN.test(key)) throw new Failure("unauthorized", "expected an API key of this server's, got another text");
    // A browser's WebSocket has no headers, so the key goes among the subprotocols.
    const socket = new Socket(address.href, key ? ["bearer", key] : []);
    this.#socket = socket;
    this.#lost = onlost;
    let opened = false;
    let missed = false;
    const miss = async () => {
      if (missed) return;
      missed = true;
      // A client is not told a refusal from a server that is gone; asking it in plain HTTP does.
      const { origin, pathname } = address; // no password, which a log would keep
      this.#lose(new Failure(await refusal(address, key), origin + pathname));
    };
    socket.binaryType = "arraybuffer";
    socket.onopen = () => {
      opened = true;
      this.send(hello);
    };
    socket.onmessage = ({ data }) => this.#receive(data, onmessage);
    socket.onerror = () => opened || miss(); // in Node no close follows it
    socket.onclose = ({ code, reason }) => (opened ? this.#lose(closeFailure(code, reason)) : miss());
    this.expect(READY_WITHIN);
  }

  /** Bytes that wait in the socket. */
  get waiting() {
    return this.#socket.bufferedAmount;
  }

  /** @param {string | Uint8Array} data for which there is room */
  send(data) {
    this.#socket.send(data);
    this.#stall.since = performance.now();
  }

  /** Count the connection as lost unless a message comes within so many seconds. */
  expect(seconds) {
    clearTimeout(this.#patience);
    this.#patience = setTimeout(() => this.#lose(new Failure("no-answer")), seconds * 1000);
  }

  /** Count the connection as lost if what waits in the socket has not changed for long. */
  watch() {
    const { waiting } = this;
    if (waiting !== this.#stall.amount) this.#stall = { amount: waiting, since: performance.now() };
    if (performance.now() - this.#stall.since > STALLED_AFTER) this.#lose(new Failure("no-answer"));
  }

  close() {
    clearTimeout(this.#patience);
    const socket = this.#socket;
    this.#socket = null;
    if (!socket) return;
    socket.onopen = socket.onmessage = socket.onerror = socket.onclose = null;
    socket.close();
  }

  #lose(failure) {
    if (this.#socket) this.#lost(failure);
    this.close();
  }

  #receive(data, onmessage) {
    let message;
    try {
      message = parse(data);
    } catch (failure) {
      return this.#lose(failure);
    }
    if (message) clearTimeout(this.#patience);
    return onmessage(message);
  }
}
