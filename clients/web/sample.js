/**
 * The recording that comes with the page, for those who have no microphone: it is heard, and sent
 * as it is heard, from its first sample on, so that it reads the same each time.
 */

import { running } from "./context.js";
import { Failure } from "./failures.js";
import { Packer } from "./frames.js";
import { SAMPLE_RATE } from "./pcm.js";

const FILE = "sample.webm";
const TICK = 20; // ms between two looks at the clock of the sound

export class Sample {
  live = true; // its frames come in the time in which it is heard
  name = "The sample";
  waits = "Loading the sample";
  words = "Emma Woodhouse, handsome, clever, and rich, with a comfortable home and happy disposition, "
    + "seemed to unite some of the best blessings of existence…";
  lost = null;
  closed = false;

  async open() {
    if (!window.AudioContext) throw new Failure("no-worklet");
    const bytes = await fetch(new URL(FILE, import.meta.url))
      .then((answer) => answer.arrayBuffer())
      .catch((error) => Promise.reject(new Failure("unreachable", error.message)));
    const decoder = new OfflineAudioContext(1, 1, SAMPLE_RATE);
    this.audio = await decoder
      .decodeAudioData(bytes)
      .catch((error) => Promise.reject(new Failure("not-audio", `${FILE}: ${error.message}`)));
    if (this.closed) return;
    this.context = new AudioContext();
    await running(this.context);
  }

  /** Play it, and give every frame to `onframe` once it was heard. */
  async deliver(onframe) {
    const packer = new Packer(SAMPLE_RATE);
    const frames = [...packer.push(this.audio.getChannelData(0)), ...packer.flush()];
    const node = this.context.createBufferSource();
    node.buffer = this.audio;
    node.connect(this.context.destination);
    const began = this.context.currentTime;
    node.start(began);
    let heard = 0; // samples
    for (const frame of frames) {
      heard += frame.samples;
      while (!this.closed && this.context.currentTime - began < heard / SAMPLE_RATE) {
        await new Promise((done) => setTimeout(done, TICK));
      }
      if (this.closed) return;
      onframe(frame);
    }
  }

  pause() {
    this.context.suspend();
  }

  resume() {
    this.context.resume();
  }

  stop() {
    this.closed = true;
  }

  close() {
    this.closed = true;
    if (this.context && this.context.state !== "closed") this.context.close();
  }
}
