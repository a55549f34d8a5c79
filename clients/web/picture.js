/**
 * The picture under the text: the log-mel energies of the sound, and under them every character
 * at the instant where it was heard, with the stretch of sound that the attention weighed for it.
 * While a take runs, its right edge is now, so the gap to the newest character is the delay that
 * one can see. It can be frozen and moved through, and a click plays the sound there. While nobody
 * sees it, nothing is computed.
 */

import { palette } from "./palette.js";
import { Spectrogram } from "./spectrogram.js";

export const SCALE = 180; // px per second: one step of the model, 40 ms, is one letter wide
export const LETTER = 8; // px, room of one letter
const BELOW = 48; // px under the energies: chunks, letters, seconds
const FRAME = 33; // ms between two pictures
const CLICK = 4; // px that a pointer may move in a click

export class Picture {
  #live = null; // gives the second that is now, while a take runs
  #drag = null;
  #spectrograms = new WeakMap(); // by timeline
  #dirty = false;
  #timer = 0;

  /**
   * @param {HTMLCanvasElement} canvas
   * @param {{play: (timeline: any, second: number) => void, frozen: (frozen: boolean) => void}} on
   */
  constructor(canvas, on) {
    this.canvas = canvas;
    this.on = on;
    this.timeline = null;
    this.end = 0; // seconds at the right edge
    this.frozen = false;
    this.cursor = null; // the second that is being played
    this.still = matchMedia("(prefers-reduced-motion: reduce)");
    new ResizeObserver(() => this.#resized()).observe(canvas); // one that is hidden has no size
    document.addEventListener("visibilitychange", () => this.#tick());
    canvas.addEventListener("keydown", (event) => this.#key(event));
    canvas.addEventListener("focus", () => this.#describe());
    canvas.addEventListener("pointerdown", (event) => this.#pressed(event));
    canvas.addEventListener("pointermove", (event) => this.#moved(event));
    canvas.addEventListener("pointerup", (event) => this.#released(event));
    canvas.addEventListener("pointercancel", () => (this.#drag = null));
    canvas.addEventListener("wheel", (event) => this.#wheel(event), { passive: false });
  }

  /** Show a running take; `now` gives the seconds of sound that have passed. */
  follow(timeline, now) {
    this.timeline = timeline;
    this.#live = now;
    this.freeze(false);
    this.#describe();
    this.#tick();
  }

  /** Take a live frame of the running take, which its sound has already. */
  hear(bytes) {
    if (!this.#seen) return;
    this.#spectrogram.push(bytes);
    if (!this.frozen) this.#dirty = true;
  }

  /** Stand still where the last characters are. */
  rest() {
    this.#live = null;
    this.freeze(false);
    if (this.timeline) this.show(this.timeline, this.timeline.spoken - this.#span / 2);
  }

  /** Stand still, or go on with what is heard now. */
  freeze(frozen) {
    if (frozen === this.frozen) return;
    this.frozen = frozen;
    this.on.frozen(frozen);
    if (frozen) this.#describe();
  }

  /** Show a take so that the second `time` is in the middle. */
  show(timeline, time) {
    if (this.#live) {
      if (timeline !== this.timeline) return;
      this.freeze(true);
    }
    this.timeline = timeline;
    this.#moveTo(time + this.#span / 2);
    this.#draw();
    this.#describe();
  }

  /** Show what is being played, or that nothing is. */
  play(timeline, time) {
    this.cursor = time;
    if (time === null) return this.redraw();
    const before = this.end - this.#span;
    if (timeline !== this.timeline || time < before || time > this.end - 0.2) {
      this.show(timeline, time + this.#span * 0.4);
    }
    return this.redraw();
  }

  clear() {
    this.timeline = null;
    this.cursor = null;
  }

  /** Draw again, with the colours as they are now. */
  recolour() {
    this.colours = null;
    if (this.timeline) this.#spectrogram.repaint();
    this.redraw();
  }

  redraw() {
    this.#dirty = true;
    if (!this.#live) this.#draw();
  }

  get #seen() {
    return !document.hidden && this.canvas.clientWidth > 0;
  }

  get #span() {
    return this.canvas.clientWidth / SCALE; // seconds
  }

  get #spectrogram() {
    const { timeline } = this;
    if (!this.#spectrograms.has(timeline)) {
      const changed = () => timeline === this.timeline && this.redraw();
      this.#spectrograms.set(timeline, new Spectrogram(timeline.sound, changed));
    }
    return this.#spectrograms.get(timeline);
  }

  /** Follow the running take for as long as it is seen. */
  #tick() {
    clearTimeout(this.#timer);
    if (!this.#live || !this.#seen) return;
    if (!this.frozen) this.#moveTo(this.#edge());
    if (this.#dirty) this.#draw();
    // No animation frame, which costs even where nothing has moved.
    this.#timer = setTimeout(() => this.#tick(), FRAME);
  }

  #resized() {
    if (!this.timeline) return;
    this.#moveTo(this.end);
    this.redraw();
    this.#tick();
  }

  /** Put the right edge there, as far as there is something to see. */
  #moveTo(end) {
    const { seconds, spoken } = this.timeline;
    const last = this.#live && !this.frozen ? Infinity : Math.max(seconds + 0.5, spoken);
    const now = Math.max(this.#span, Math.min(end, last));
    if (now !== this.end) this.#dirty = true;
    this.end = now;
  }

  #move(by) {
    if (!this.timeline) return;
    if (this.#live) this.freeze(true);
    this.#moveTo(this.end + by);
    this.redraw();
    this.#describe();
  }

  #key(event) {
    const steps = {
      ArrowLeft: -0.5, ArrowRight: 0.5, ArrowDown: -0.5, ArrowUp: 0.5,
      PageUp: -5, PageDown: 5, Home: -1e9, End: 1e9,
    };
    if (event.key in steps) this.#move(steps[event.key]);
    else if (event.key === "Enter" || event.key === " ") this.#playMiddle();
    else return;
    event.preventDefault();
  }

  #pressed(event) {
    if (event.button !== 0) return; // such as of a menu
    this.#drag = { x: event.clientX, moved: false };
    this.canvas.setPointerCapture(event.pointerId);
  }

  #moved(event) {
    if (!this.#drag) return;
    this.#drag.moved ||= Math.abs(event.clientX - this.#drag.x) > CLICK;
    if (this.#drag.moved) this.#move(-event.movementX / SCALE);
  }

  #released(event) {
    if (this.#drag && !this.#drag.moved) this.#playAt(this.end - this.#span + event.offsetX / SCALE);
    this.#drag = null;
  }

  /** Play from the middle of the picture on, or all of a take that ends before it. */
  #playMiddle() {
    const middle = this.end - this.#span / 2;
    this.#playAt(middle < this.timeline?.seconds ? middle : this.end - this.#span);
  }

  #playAt(second) {
    if (this.timeline && second < this.timeline.seconds) this.on.play(this.timeline, second);
  }

  #wheel(event) {
    if (Math.abs(event.deltaX) <= Math.abs(event.deltaY)) return; // the page's own scrolling
    event.preventDefault();
    this.#move(event.deltaX / SCALE);
  }

  /** The right edge of a running take; without motion it goes on by whole pages. */
  #edge() {
    const seconds = this.#live();
    if (!this.still.matches) return Math.max(this.#span, seconds);
    return this.#span * Math.max(1, Math.ceil(seconds / this.#span));
  }

  #draw() {
    const { canvas } = this;
    const { clientWidth: width, clientHeight: height } = canvas;
    if (!this.timeline || !width) return;
    this.#dirty = false;
    const density = window.devicePixelRatio || 1;
    const size = [Math.round(width * density), Math.round(height * density)];
    if (canvas.width !== size[0] || canvas.height !== size[1]) [canvas.width, canvas.height] = size;
    this.colours ??= palette(canvas);
    const pen = canvas.getContext("2d");
    pen.setTransform(density, 0, 0, density, 0, 0);
    pen.clearRect(0, 0, width, height);
    const from = this.end - this.#span;
    const floor = height - BELOW; // where the energies end
    this.#spectrogram.draw(pen, from, this.end, SCALE, 0, floor, this.colours.ramp);
    this.#drawSeconds(pen, from, width, height);
    this.#drawMarks(pen, from, floor);
    if (this.cursor !== null) {
      pen.fillStyle = this.colours.ink;
      pen.fillRect((this.cursor - from) * SCALE - 1, 0, 2, height - 12);
    }
  }

  #drawSeconds(pen, from, width, height) {
    pen.fillStyle = this.colours.soft;
    pen.font = `10px ${this.colours.sans}`;
    pen.textAlign = "left";
    for (let second = Math.max(0, Math.floor(from)); second <= this.end; second += 1) {
      const x = (second - from) * SCALE;
      const label = `${second} s`;
      const whole = x >= 0 && x + 4 + pen.measureText(label).width <= width;
      if (!whole) continue; // a label cut in two says another second
      pen.fillRect(Math.round(x), height - 11, 1, 11);
      pen.fillText(label, x + 4, height - 2);
    }
  }

  #drawMarks(pen, from, floor) {
    const { accent, chunk, ink, mono } = this.colours;
    pen.font = `500 12px ${mono}`;
    pen.textAlign = "center";
    for (const mark of this.timeline.marksWithin(from - 0.2, this.end + 0.2)) {
      const stop = (mark.time - from) * SCALE;
      const row = floor + 3 + 5 * mark.row; // neighbours' chunks overlap, so each has another row
      if (mark.from !== null) {
        pen.fillStyle = chunk;
        pen.fillRect((mark.from - from) * SCALE, row, (mark.time - mark.from) * SCALE, 4);
      }
      pen.fillStyle = accent;
      pen.fillRect(stop - 1, floor, 2, row + 4 - floor); // the stop
      if (mark.text === " ") continue;
      pen.globalAlpha = 0.35;
      pen.fillRect(stop - 0.5, 0, 1, floor);
      pen.globalAlpha = 1;
      pen.fillStyle = ink;
      pen.fillText(mark.text, (mark.place - from) * SCALE, floor + 28);
    }
  }

  #describe() {
    if (!this.timeline) return;
    const shown = Math.min(this.end, this.timeline.seconds);
    const marks = this.timeline.marksWithin(this.end - this.#span, this.end);
    const words = marks.map((each) => each.text).join("").trim();
    this.canvas.setAttribute("aria-valuemax", this.timeline.seconds.toFixed(1));
    this.canvas.setAttribute("aria-valuenow", shown.toFixed(1));
    this.canvas.setAttribute("aria-valuetext", `${shown.toFixed(1)} seconds: ${words || "no characters"}`);
  }
}
