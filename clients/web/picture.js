/**
 * The picture under the text: the loudness of the sound, and every character at the instant where
 * it was heard. While a take runs, its right edge is now, so the gap to the newest character is the
 * delay that one can see. Afterwards it can be moved through by hand.
 */

import { FRAME_SECONDS } from "./timeline.js";

const SCALE = 180; // px per second: one step of the model, 40 ms, is one letter wide
const MIDDLE = 34; // px from the top, the line that the sound swings about
const SWING = 28; // px, full scale
const LETTERS = [80, 93]; // px, baselines; the second row is for letters that would touch
const LETTER = 7; // px, room of one letter
const HEIGHT = 112;

export class Picture {
  /** @param {HTMLCanvasElement} canvas */
  constructor(canvas) {
    this.canvas = canvas;
    this.timeline = null;
    this.end = 0; // seconds at the right edge
    this.now = null; // gives the right edge while a take runs
    this.still = matchMedia("(prefers-reduced-motion: reduce)");
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.draw());
    new ResizeObserver(() => (this.now ? this.draw() : this.#move(0))).observe(canvas);
    canvas.addEventListener("keydown", (event) => this.#key(event));
    canvas.addEventListener("pointermove", (event) => {
      if (event.buttons) this.#move(-event.movementX / SCALE);
    });
    canvas.addEventListener("wheel", (event) => this.#wheel(event), { passive: false });
  }

  /** Show a running take; `now` gives the seconds of sound that have passed. */
  follow(timeline, now) {
    this.canvas.hidden = false;
    this.timeline = timeline;
    this.now = now;
    const frame = () => {
      if (this.now !== now) return;
      this.draw();
      requestAnimationFrame(frame);
    };
    frame();
  }

  /** Stand still at the end of what was heard. */
  rest() {
    this.now = null;
    if (this.timeline) this.show(this.timeline, Infinity);
  }

  /** Show a finished take so that the second `time` is in view. */
  show(timeline, time) {
    if (this.now) return;
    this.timeline = timeline;
    this.end = this.#within(time + this.#span / 2);
    this.draw();
  }

  clear() {
    this.timeline = null;
    this.canvas.hidden = true;
  }

  get #span() {
    return this.canvas.clientWidth / SCALE; // seconds
  }

  /** The nearest right edge that leaves no needless room on either side. */
  #within(end) {
    return Math.max(this.#span, Math.min(end, this.timeline.seconds + 0.5));
  }

  #move(by) {
    if (this.now || !this.timeline) return;
    this.end = this.#within(this.end + by);
    this.draw();
  }

  #key(event) {
    const steps = { ArrowLeft: -0.5, ArrowRight: 0.5, PageUp: -5, PageDown: 5, Home: -1e9, End: 1e9 };
    if (!(event.key in steps)) return;
    event.preventDefault();
    this.#move(steps[event.key]);
  }

  #wheel(event) {
    if (Math.abs(event.deltaX) <= Math.abs(event.deltaY)) return; // the page's own scrolling
    event.preventDefault();
    this.#move(event.deltaX / SCALE);
  }

  /** The right edge of a running take; without motion it goes on by whole pages. */
  #edge() {
    const seconds = this.now();
    if (!this.still.matches) return Math.max(this.#span, seconds);
    return this.#span * Math.max(1, Math.ceil(seconds / this.#span));
  }

  draw() {
    if (!this.timeline || !this.canvas.clientWidth) return;
    if (this.now) this.end = this.#edge();
    const { canvas } = this;
    const density = window.devicePixelRatio || 1;
    const width = canvas.clientWidth;
    const size = [Math.round(width * density), Math.round(HEIGHT * density)];
    if (canvas.width !== size[0] || canvas.height !== size[1]) [canvas.width, canvas.height] = size;
    const pen = canvas.getContext("2d");
    pen.setTransform(density, 0, 0, density, 0, 0);
    pen.clearRect(0, 0, width, HEIGHT);
    const from = this.end - this.#span;
    const style = getComputedStyle(canvas);
    const colour = (name) => style.getPropertyValue(`--${name}`);
    this.#drawSeconds(pen, from, colour("faint"), style.fontFamily);
    this.#drawSound(pen, from, colour("sound"));
    this.#drawMarks(pen, from, colour("accent"), colour("ink"));
    this.#describe();
  }

  #drawSeconds(pen, from, colour, font) {
    pen.fillStyle = colour;
    pen.font = `10px ${font}`;
    pen.textAlign = "left";
    for (let second = Math.max(0, Math.floor(from)); second <= this.end; second += 1) {
      const x = (second - from) * SCALE;
      pen.fillRect(Math.round(x), HEIGHT - 12, 1, 12);
      pen.fillText(`${second} s`, x + 4, HEIGHT - 1);
    }
  }

  #drawSound(pen, from, colour) {
    pen.fillStyle = colour;
    const wide = FRAME_SECONDS * SCALE;
    for (const { level, time } of this.timeline.levelsWithin(from, this.end)) {
      const high = Math.max(0.5, level * SWING);
      pen.fillRect((time - from) * SCALE + 1, MIDDLE - high, wide - 2, 2 * high);
    }
  }

  #drawMarks(pen, from, accent, ink) {
    pen.font = "500 11px ui-monospace, SFMono-Regular, Menlo, Consolas, 'DejaVu Sans Mono', monospace";
    pen.textAlign = "center";
    const taken = LETTERS.map(() => -Infinity); // where each row's last letter stands
    for (const { text, time } of this.timeline.marksWithin(from, this.end)) {
      const x = (time - from) * SCALE;
      pen.fillStyle = accent;
      pen.fillRect(x - 0.5, MIDDLE, 1, LETTERS[0] - 12 - MIDDLE);
      if (text !== " ") {
        const row = x - taken[0] < LETTER && x - taken[1] >= LETTER ? 1 : 0;
        taken[row] = x;
        pen.fillStyle = ink;
        pen.fillText(text, x, LETTERS[row]);
      }
    }
  }

  #describe() {
    const shown = Math.min(this.end, this.timeline.seconds);
    this.canvas.setAttribute("aria-valuemax", this.timeline.seconds.toFixed(1));
    this.canvas.setAttribute("aria-valuenow", shown.toFixed(1));
    this.canvas.setAttribute("aria-valuetext", `${shown.toFixed(1)} seconds`);
  }
}
