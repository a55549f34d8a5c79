/** The text on the page: one paragraph per take, each character with the time it was heard at. */

import { seconds } from "./format.js";

const STICKY = 48; // px from the end within which the view follows new text

export class Transcript {
  /** @param {HTMLElement} root  @param {HTMLElement} hint shown while there is no text */
  constructor(root, hint) {
    this.root = root;
    this.hint = hint;
    this.paragraph = null; // of the take that is running
    this.breaks = false; // the line, before the next character
    // A title for each character only once it is pointed at: hours of text stay light.
    root.addEventListener("pointerover", ({ target }) => {
      if (target.dataset.time) target.title = `heard at ${seconds(Number(target.dataset.time))}`;
    });
  }

  /** Begin a paragraph; `timeline` is what its characters can be looked up in. */
  begin(timeline) {
    const take = element("article", "take");
    this.paragraph = element("p", "text live");
    this.paragraph.timeline = timeline;
    this.breaks = false;
    take.append(this.paragraph);
    this.hint.hidden = true;
    this.#following(() => this.root.append(take));
  }

  /** Add characters at the end; what stands is never changed. */
  append(characters) {
    const spans = characters.map(character);
    // The space before an utterance's first word hangs at the end of the line before.
    const word = this.breaks ? spans.findIndex(({ textContent }) => textContent.trim()) : -1;
    if (word >= 0) {
      spans.splice(word, 0, element("br", "utterance"));
      this.breaks = false;
    }
    this.#following(() => this.paragraph.append(...spans));
  }

  /** Let what comes next begin a line: an utterance has ended. */
  breakLine() {
    this.breaks = true;
  }

  /** End the paragraph with the final characters and a line that says what it was made of. */
  settle(characters, caption) {
    const text = characters.map((each) => each.text).join("");
    if (this.paragraph.textContent !== text) {
      this.paragraph.replaceChildren(...characters.map(character));
    }
    this.end(text.trim() ? caption : `${caption}, no speech recognised`);
  }

  /** End the paragraph as it stands. */
  end(caption) {
    if (!this.paragraph) return;
    this.paragraph.classList.remove("live");
    const line = element("p", "caption");
    line.textContent = caption;
    this.#following(() => this.paragraph.after(line));
    this.paragraph = null;
  }

  /** The whole text, a line for each utterance and a blank line between takes. */
  get text() {
    const paragraphs = [...this.root.querySelectorAll(".text")];
    return paragraphs.map(lines).filter(Boolean).join("\n\n");
  }

  clear() {
    for (const take of this.root.querySelectorAll(".take")) take.remove();
    this.hint.hidden = false;
  }

  /** Do something that adds text, and keep the end in view if it was. */
  #following(change) {
    const { root } = this;
    const follows = root.scrollHeight - root.scrollTop - root.clientHeight < STICKY;
    change();
    if (follows) root.scrollTop = root.scrollHeight;
  }
}

function lines(paragraph) {
  const parts = [...paragraph.children].map((each) =>
    each.tagName === "BR" ? "\n" : each.textContent,
  );
  return parts.join("").replaceAll(/ +\n/g, "\n").trim();
}

function character({ text, time }) {
  const span = element("span", "character");
  span.textContent = text;
  span.dataset.time = time.toFixed(2);
  return span;
}

function element(name, className) {
  return Object.assign(document.createElement(name), { className });
}
