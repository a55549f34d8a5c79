/** The text on the page: a block for each utterance, with the time at which it began. */

import { firstThat } from "./bisect.js";
import { clock, seconds } from "./format.js";

const STICKY = 48; // px from the end within which the view follows new text
const SETTLE = 500; // ms in each of a new character's two colours
const DOUBT = 0.5; // confidence under which a word is more likely wrong than right
const LEAD = 0.25; // seconds before a character at which its sound is played

export class Transcript {
  #timelines = new WeakMap(); // by the article that shows them
  #article = null; // of the take that is running
  #text = null; // of the utterance that is running
  #word = null; // the place for the word that is running
  #whole = []; // utterances that have ended but still have an element for each character
  #height = 0; // of the text, and of what is seen of it, when the end was last kept in view
  #room = 0;
  #follows = true; // the end is in view, and stays there

  /**
   * @param {HTMLElement} root
   * @param {HTMLElement} hint shown while there is no text
   * @param {{point: (timeline: any, second: number) => void, play: (timeline: any, second: number) => void}} on
   */
  constructor(root, hint, on) {
    this.root = root;
    this.hint = hint;
    document.addEventListener("selectionchange", () => this.#lighten());
    root.addEventListener("scroll", () => this.#scrolled(), { passive: true });
    new ResizeObserver(() => this.#keepEnd()).observe(root);
    // A title for each character only once it is pointed at: hours of text stay light.
    root.addEventListener("pointerover", ({ target }) => {
      if (!target.dataset.time) return;
      target.title = about(target);
      on.point(this.#timelineOf(target), Number(target.dataset.time));
    });
    root.addEventListener("click", ({ target }) => {
      if (!target.dataset.time || !getSelection().isCollapsed) return;
      on.play(this.#timelineOf(target), Math.max(0, Number(target.dataset.time) - LEAD));
    });
  }

  /** Begin a take; `timeline` is what its characters can be looked up in. */
  begin(timeline) {
    this.#article = element("article", "take");
    this.#timelines.set(this.#article, timeline);
    this.#text = null;
    this.hint.hidden = true;
    this.#following(() => this.root.append(this.#article));
  }

  /** Add characters at the end; what stands is never changed. */
  append(characters) {
    this.#following(() => this.#settle(characters.map((each) => this.#add(each)).filter(Boolean)));
  }

  /** An utterance has ended: what comes next begins a block of its own. */
  breakLine() {
    if (!this.#text) return;
    this.#text.classList.remove("live");
    this.#whole.push(this.#text);
    this.#lighten();
    this.#text = null;
  }

  /** End the take with a line that says what it was made of. */
  end(caption) {
    if (!this.#article) return;
    this.breakLine();
    const line = element("p", "caption");
    line.textContent = this.#article.childElementCount ? caption : `${caption}, no speech recognised`;
    if (this.#article.querySelector(".doubtful")) line.append("; words ", sample(), " are in doubt");
    this.#following(() => this.#article.append(line));
    this.#article = null;
  }

  /** Show which word of a take is being played, or none. */
  point(timeline, second) {
    this.pointed?.classList.remove("played");
    this.pointed = null;
    if (second === null) return;
    const article = [...this.root.children].find((each) => this.#timelines.get(each) === timeline);
    const words = article?.querySelectorAll(".word") ?? [];
    const later = firstThat(words, (word) => Number(word.dataset.time) - LEAD > second);
    this.pointed = words[later - 1] ?? null;
    this.pointed?.classList.add("played");
  }

  clear() {
    for (const take of this.root.querySelectorAll(".take")) take.remove();
    this.#whole = [];
    this.hint.hidden = false;
    this.#edges();
  }

  /** Keep the end in view, as after a change of the window or of the type. */
  toEnd() {
    this.#follows = true;
    this.#keepEnd();
  }

  /** Take the elements of characters away, but where they are selected: a selection ends with what it is in. */
  #lighten() {
    const selection = getSelection();
    const isSelected = (text) => !selection.isCollapsed && selection.containsNode(text, true);
    const some = this.#whole;
    this.#whole = some.filter(isSelected);
    for (const text of some) {
      if (this.#whole.includes(text)) continue;
      for (const word of text.querySelectorAll(".word")) word.textContent = word.textContent;
    }
  }

  #add({ text, time, confidence }) {
    if (!text.trim()) {
      this.#text?.append(text); // none before an utterance's first word
      this.#word = null;
      return null;
    }
    if (!this.#text) this.#beginUtterance(time);
    if (!this.#word) {
      this.#word = element("span", "word");
      this.#word.dataset.time = time.toFixed(2);
      this.#text.append(this.#word);
    }
    if (confidence < (this.#word.dataset.confidence ?? 1)) this.#word.dataset.confidence = confidence;
    if (this.#word.dataset.confidence < DOUBT) {
      this.#word.classList.add("doubtful");
      this.#word.setAttribute("role", "mark"); // for those who do not see the dots
    }
    const span = element("span", "character");
    span.textContent = text;
    span.dataset.time = time.toFixed(2);
    this.#word.append(span);
    return span;
  }

  /** Let new characters settle into the ink, in two steps: an animation would paint all the time. */
  #settle(spans) {
    spans.forEach((each) => each.classList.add("fresh"));
    setTimeout(() => spans.forEach((each) => each.classList.replace("fresh", "settling")), SETTLE);
    setTimeout(() => spans.forEach((each) => each.classList.remove("settling")), 2 * SETTLE);
  }

  #beginUtterance(time) {
    const block = element("div", "utterance");
    const label = element("time", "");
    label.textContent = clock(time);
    label.dateTime = `PT${time.toFixed(2)}S`;
    this.#text = element("p", "text live");
    this.#word = null;
    block.append(label, this.#text);
    this.#article.append(block);
  }

  #timelineOf(node) {
    return this.#timelines.get(node.closest(".take"));
  }

  /** Do something that adds text, and keep the end in view if it was. */
  #following(change) {
    change();
    this.#keepEnd();
  }

  #scrolled() {
    const { root } = this;
    // Text that is laid out anew scrolls by itself, before the observer hears of it.
    if (root.scrollHeight !== this.#height || root.clientHeight !== this.#room) {
      this.#keepEnd();
      return;
    }
    this.#follows = root.scrollHeight - root.scrollTop - root.clientHeight < STICKY;
    this.#edges();
  }

  #keepEnd() {
    if (this.#follows) this.root.scrollTop = this.root.scrollHeight;
    this.#height = this.root.scrollHeight;
    this.#room = this.root.clientHeight;
    this.#edges();
  }

  /** Where text goes on beyond an edge, the style sheet lets it fade instead of being cut. */
  #edges() {
    const { root } = this;
    root.classList.toggle("more-above", root.scrollTop > 1);
    root.classList.toggle("more-below", root.scrollHeight - root.scrollTop - root.clientHeight > 1);
  }
}

/** What a character or a word says when it is pointed at. */
function about(target) {
  const { confidence } = target.closest(".word").dataset;
  const sure = confidence ? `, ${Math.round(100 * confidence)} % sure` : "";
  return `heard at ${seconds(Number(target.dataset.time))}${sure}: press to listen`;
}

const sample = () => Object.assign(element("span", "doubtful"), { textContent: "with dots" });

function element(name, className) {
  return Object.assign(document.createElement(name), { className });
}
