/**
 * Live sound as a source of frames: a microphone, or a shared tab.
 * The device keeps its own rate; the audio thread resamples.
 */

import { running } from "./context.js";
import { Failure } from "./failures.js";
import { status } from "./reach.js";

const FLUSH_WITHIN = 1000; // ms; an audio thread that does not run again never answers

/**
 * @typedef {object} Input  what is captured
 * @property {(context: AudioContext, sink: AudioNode) => void} connect
 * @property {() => void} onended  set by the capture: what it calls when there is no more
 * @property {() => void} close
 * @property {Failure | null} [lost]  why it ended, if not as expected
 */

export class Capture {
  live = true; // its frames come in the time of the clock on the wall
  waits = "Waiting for the permission"; // said while it is opened

  /** @param {string} name  @param {() => Promise<Input>} openInput asks for the permission */
  constructor(name, openInput) {
    this.name = name;
    this.openInput = openInput;
    this.closed = false;
    /** @type {Failure | null} */
    this.lost = null;
  }

  /** Ask for the permission and set up the audio thread; no sound is taken yet. */
  async open() {
    if (!window.AudioContext || !window.AudioWorkletNode) throw new Failure("no-worklet");
    this.input = await this.openInput();
    if (this.closed) return this.close(); // given up while the browser was asking
    this.context = new AudioContext({ latencyHint: "interactive" });
    await this.#load(new URL("capture-worklet.js", import.meta.url));
    await running(this.context);
    this.node = new AudioWorkletNode(this.context, "cortado-capture");
    this.input.connect(this.context, this.node);
    this.node.connect(this.context.destination); // silence, but what leads nowhere is not run
    return undefined;
  }

  /** Give every frame to `onframe` until stop(), or until there is no more (see `lost`). */
  deliver(onframe) {
    return new Promise((resolve, reject) => {
      this.flushed = resolve;
      this.node.port.onmessage = ({ data }) => (data === "flushed" ? this.flushed() : onframe(data));
      this.node.onprocessorerror = () => reject(new Failure("no-worklet", "the audio thread failed"));
      this.input.onended = () => {
        this.lost = this.input.lost ?? null;
        this.stop();
      };
      this.node.port.postMessage("run");
      if (this.input.ended) this.input.onended(); // before anybody listened
    });
  }

  pause() {
    this.node.port.postMessage("wait");
    this.context.suspend();
  }

  async resume() {
    await this.context.resume();
    this.node.port.postMessage("run");
  }

  /** Take no more sound; the last frames still come. */
  stop() {
    this.context?.resume(); // what is paused cannot be flushed
    this.node?.port.postMessage("flush");
    setTimeout(() => this.flushed?.(), FLUSH_WITHIN);
  }

  close() {
    this.closed = true;
    this.input?.close();
    this.#letGo();
    if (this.context && this.context.state !== "closed") this.context.close();
  }

  /** A browser keeps an audio node whose handlers still refer to the take, and with it all its sound. */
  #letGo() {
    if (!this.node) return;
    this.node.port.onmessage = this.node.onprocessorerror = null;
    this.node.port.close();
    this.node.disconnect();
  }

  async #load(worklet) {
    try {
      await this.context.audioWorklet.addModule(worklet);
    } catch (error) {
      // The worklet comes from the server too: when that is gone, the browser is not to blame.
      throw new Failure((await status(worklet)) ? "no-worklet" : "unreachable", error.message);
    }
  }
}
