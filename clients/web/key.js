/** The server's key: asked for where it wants one, kept in this browser, and forgotten on request. */

import { keyHeaders } from "./reach.js";
import * as settings from "./settings.js";

/** The key that is kept, or none. */
export const kept = () => settings.read().key;

/** Keep the key of a link that ends in #key=…, if it does; what follows the # was never sent to anyone. */
export function takeFromAddress() {
  const key = new URLSearchParams(location.hash.slice(1)).get("key");
  if (!key) return false;
  settings.change({ key });
  history.replaceState(null, "", location.pathname + location.search);
  return true;
}

/** What the server says about itself; null where it wants a key, or another than is kept. */
export async function info() {
  if (!/^[\x21-\x7e]*$/.test(kept())) return null; // such a key can be sent nowhere
  const answer = await fetch("v1/info", { headers: keyHeaders(kept()) });
  if (answer.status === 401) return null;
  if (!answer.ok) throw new Error(`status ${answer.status}`);
  return answer.json();
}

export class KeyForm {
  /**
   * @param {HTMLFormElement} form
   * @param {HTMLButtonElement} forget
   * @param {(found: any, focused: boolean) => void} onright called with what the server says of itself, and whether the form had the focus
   */
  constructor(form, forget, onright) {
    this.form = form;
    this.onright = onright;
    this.forget = forget;
    this.note = form.querySelector("[role=alert]");
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      settings.change({ key: form.elements.key.value.trim() });
      this.look().catch(() => {
        this.note.textContent = "The server did not answer. Try again.";
      });
    });
    forget.addEventListener("click", () => {
      settings.change({ key: "" });
      this.look().catch(() => {}); // a server that is gone is told on Start
    });
  }

  /** Ask the server what it is; ask for the key where it wants one. */
  async look() {
    const found = await info();
    if (!found) return this.ask();
    const focused = this.form.contains(document.activeElement);
    this.form.hidden = true;
    this.forget.hidden = !kept();
    return this.onright(found, focused);
  }

  /** Show the form, and say whether the kept key is wrong. */
  ask() {
    const wrong = kept() !== "";
    this.form.hidden = false;
    this.forget.hidden = true;
    this.note.textContent = wrong ? "The server does not know this key, or no longer." : "";
    this.form.elements.key.value = "";
    if (wrong) settings.change({ key: "" });
    this.form.elements.key.focus();
  }
}
