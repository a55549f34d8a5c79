/**
 * The text for those who listen to the page: an utterance at once in a polite live region, or a
 * line of one that is long. Characters one by one would be read out as letters.
 */

const LINE = 80; // characters after which an utterance that goes on is said so far
const STANDS = 10_000; // ms: who reads the page would else find the text twice

export class Announcer {
  #rest = ""; // of the utterance

  /** @param {HTMLElement} region with aria-live */
  constructor(region) {
    this.region = region;
  }

  append(characters) {
    this.#rest += characters.map((each) => each.text).join("");
    const end = this.#rest.lastIndexOf(" ");
    if (end < LINE) return;
    this.say(this.#rest.slice(0, end));
    this.#rest = this.#rest.slice(end);
  }

  /** Say what is left of the utterance: it has ended. */
  end() {
    this.say(this.#rest);
    this.#rest = "";
  }

  say(text) {
    if (!text.trim()) return;
    const line = document.createElement("p");
    line.textContent = text.trim();
    this.region.append(line);
    setTimeout(() => line.remove(), STANDS);
  }

  clear() {
    this.region.replaceChildren();
    this.#rest = "";
  }
}
