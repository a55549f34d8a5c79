/**
 * The microphone as a source of frames.
 *
 * Echo cancellation, noise suppression and gain control of the browser are off unless asked for:
 * they are made for calls, cut quiet beginnings and pump the noise floor, and the recogniser was
 * trained on speech without them. The device keeps its own rate; the worklet resamples.
 */

import { Failure, microphoneFailure } from "./failures.js";
import { answers } from "./reach.js";

const RESUME_WITHIN = 3000; // ms

/** Why this browser cannot record here, or null. */
export function obstacle() {
  if (!window.isSecureContext || !navigator.mediaDevices?.getUserMedia) {
    return new Failure("insecure");
  }
  if (!window.AudioContext || !window.AudioWorkletNode) return new Failure("no-worklet");
  return null;
}

/** The microphones by name; names are known only after the permission. */
export async function devices() {
  const all = (await navigator.mediaDevices?.enumerateDevices?.()) ?? [];
  return all.filter((each) => each.kind === "audioinput" && each.deviceId && each.label);
}

export class Microphone {
  name = "microphone";
  live = true; // its frames come in the time of the clock on the wall

  /** @param {{device?: string, cleanUp?: boolean}} choices */
  constructor({ device = "", cleanUp = false } = {}) {
    this.constraints = {
      channelCount: { ideal: 1 },
      echoCancellation: cleanUp,
      noiseSuppression: cleanUp,
      autoGainControl: cleanUp,
      ...(device && { deviceId: { exact: device } }),
    };
    this.closed = false;
    this.lost = null;
  }

  /** Ask for the permission and set up the audio thread; no sound is taken yet. */
  async open() {
    const failure = obstacle();
    if (failure) throw failure;
    this.stream = await navigator.mediaDevices
      .getUserMedia({ audio: this.constraints })
      .catch((error) => Promise.reject(microphoneFailure(error)));
    if (this.closed) return this.close(); // given up while the browser was asking
    this.context = new AudioContext({ latencyHint: "interactive" });
    await this.#load(new URL("capture-worklet.js", import.meta.url));
    await this.#resume();
    this.node = new AudioWorkletNode(this.context, "cortado-capture");
    this.context.createMediaStreamSource(this.stream).connect(this.node);
    this.node.connect(this.context.destination); // silence, but what leads nowhere is not run
    return undefined;
  }

  /** Give every frame to `onframe` until stop(), or until the device is gone (see `lost`). */
  deliver(onframe) {
    return new Promise((resolve, reject) => {
      this.node.port.onmessage = ({ data }) => (data === "flushed" ? resolve() : onframe(data));
      this.node.onprocessorerror = () => reject(new Failure("no-worklet", "the audio thread failed"));
      this.stream.getAudioTracks()[0].onended = () => {
        this.lost = new Failure("microphone-lost");
        this.stop();
      };
      this.node.port.postMessage("run");
    });
  }

  /** Take no more sound; the last frames still come. */
  stop() {
    this.node?.port.postMessage("flush");
  }

  close() {
    this.closed = true;
    for (const track of this.stream?.getTracks() ?? []) {
      track.onended = null;
      track.stop();
    }
    if (this.context && this.context.state !== "closed") this.context.close();
  }

  async #load(worklet) {
    try {
      await this.context.audioWorklet.addModule(worklet);
    } catch (error) {
      // The worklet comes from the server too: when that is gone, the browser is not to blame.
      throw new Failure((await answers(worklet)) ? "no-worklet" : "unreachable", error.message);
    }
  }

  async #resume() {
    const waited = new Promise((done) => setTimeout(done, RESUME_WITHIN));
    await Promise.race([this.context.resume(), waited]);
    if (this.context.state !== "running") throw new Failure("audio-blocked");
  }
}
