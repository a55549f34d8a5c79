/**
 * The text for those who listen to the page: whole words in a polite live region.
 * Characters one by one would be read out as letters.
 */
export class Announcer {
  /** @param {HTMLElement} region with aria-live */
  constructor(region) {
    this.region = region;
    this.rest = "";
  }

  append(characters) {
    this.rest += characters.map((each) => each.text).join("");
    const end = this.rest.lastIndexOf(" ");
    if (end >= 0) this.#say(this.rest.slice(0, end));
    this.rest = this.rest.slice(end + 1);
  }

  /** Say what is left of the last word, and forget what was said. */
  end() {
    this.#say(this.rest);
    this.rest = "";
  }

  clear() {
    this.region.replaceChildren();
    this.rest = "";
  }

  #say(words) {
    if (!words.trim()) return;
    const line = document.createElement("p");
    line.textContent = words;
    this.region.append(line);
    while (this.region.childElementCount > 20) this.region.firstElementChild.remove();
  }
}
