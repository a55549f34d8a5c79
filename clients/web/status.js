/**
 * The one line that says what is going on. A screen reader reads out its first part, which is news;
 * the second counts, and stands there for those who look.
 */

import { clock } from "./format.js";
import { SAMPLE_RATE } from "./pcm.js";

const LOST = "Connection lost; what you say is kept";
const WAITING = 1; // seconds of sound that wait to be sent: say so
const SILENT = 3; // seconds without the least noise, as no microphone that is on ever gives
const NEWS = 4; // seconds that a piece of news stands
const EVERY = 1; // seconds between two lines of progress

export class Status {
  #usual = ""; // what stands when there is no news
  #until = 0;
  #lost = false;
  #anew = false; // the server could not go on with the stream that was lost
  #told = 0;
  #silence = 0; // seconds
  #silent = ""; // what to say of it

  /**
   * @param {HTMLElement} news a live region
   * @param {HTMLElement} count beside it
   */
  constructor(news, count) {
    this.news = news;
    this.count = count;
  }

  say(text) {
    this.#usual = text;
    if (!this.#lost) this.#show(text);
    else if (text !== "Paused") this.#show(LOST);
  }

  /** The take is over: nothing is lost or waited for any more. */
  rest() {
    this.#lost = this.#anew = false;
    this.say("");
  }

  listen(source) {
    this.began = null;
    this.#silence = 0;
    this.say(source.live ? "Listening" : `Hearing ${source.name}`);
  }

  /** The connection is lost, or there again. */
  link(state) {
    const was = this.#lost;
    if (state === "lost") {
      this.#lost = true;
      if (this.#usual !== "Paused") this.#show(LOST);
    } else if (state === "open" && was) {
      this.#lost = false;
      const broken = this.#anew ? "; the server began anew, so a word may be broken" : ", nothing was lost";
      this.note(`Connected again${broken}`);
      this.#anew = false;
    } else if (state !== "connecting") {
      this.#lost = false;
    }
  }

  /** The server did not know the stream any more: a new one goes on behind the last character. */
  restarted() {
    this.#anew = true;
  }

  /** Say something for a while. */
  note(text) {
    this.#until = performance.now() + NEWS * 1000;
    this.#show(text);
    setTimeout(() => {
      if (this.news.textContent !== text) return;
      this.#show(this.#lost && this.#usual !== "Paused" ? LOST : this.#usual);
    }, NEWS * 1000);
  }

  /** A frame came from a live source. */
  hear(source, frame) {
    this.#silence = frame.rms === 0 ? this.#silence + frame.samples / SAMPLE_RATE : 0;
    this.#silent = `Only silence comes from the ${source.name}: is it muted?`;
  }

  /** So many seconds of live sound wait to be sent. */
  waiting(seconds) {
    if (this.#lost || performance.now() < this.#until) return;
    if (seconds > WAITING) this.#show("Slow connection", `: ${Math.ceil(seconds)} s wait to be sent`);
    else this.#show(this.#silence > SILENT ? this.#silent : this.#usual);
  }

  /** So many seconds of a recording were heard at an instant of the wall clock. */
  progress(source, heard, now) {
    this.began ??= now;
    if (this.#lost || performance.now() < this.#until) return;
    if (now - this.#told < EVERY || !heard) return;
    this.#told = now;
    const share = Math.min(1, heard / source.seconds);
    const left = (now - this.began) * (1 / share - 1);
    this.#show(this.#usual, `, ${Math.round(100 * share)} %, ${clock(left)} left`);
  }

  #show(news, count = "") {
    if (this.news.textContent !== news) this.news.textContent = news;
    if (this.count.textContent !== count) this.count.textContent = count;
  }
}
