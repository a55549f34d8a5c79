/**
 * A live source's end on the audio thread: every block of the device becomes frames of 16 kHz.
 *
 * Messages in: "run", "wait" and "flush". Messages out: frames, and "flushed" once after "flush".
 * Nothing is posted before "run", so that no word is taken before the server is ready to hear it.
 */

import { Packer } from "./frames.js";
import { mono } from "./pcm.js";

class Capture extends AudioWorkletProcessor {
  constructor() {
    super();
    this.packer = new Packer(sampleRate); // a global of the audio thread: the device's own rate
    this.state = "waiting";
    this.heard = false;
    this.port.onmessage = (event) => this.#command(event.data);
  }

  #command(command) {
    if (this.state === "done") return;
    if (command === "run") {
      this.state = "running";
      this.heard = true;
    } else if (command === "wait") {
      this.state = "waiting";
    } else {
      if (this.heard) this.#post(this.packer.flush());
      this.state = "done";
      this.port.postMessage("flushed");
    }
  }

  #post(frames) {
    for (const frame of frames) this.port.postMessage(frame, [frame.bytes]);
  }

  process([input]) {
    // A microphone that has gone or not yet come gives no channels.
    if (this.state === "running" && input.length) this.#post(this.packer.push(mono(input)));
    return this.state !== "done";
  }
}

registerProcessor("cortado-capture", Capture);
