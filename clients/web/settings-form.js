/** The form under Settings: it shows what is kept, and what is chosen in it is kept. */

import * as settings from "./settings.js";
import { devices } from "./sources.js";

const byId = (id) => document.getElementById(id);
const KEPT = { // elements, and the settings that they show
  device: "device",
  "clean-up": "cleanUp",
  phrases: "phrases",
  seen: "picture",
  size: "size",
  theme: "theme",
};

// What a server takes of names; docs/engine.md says how they are stored.
const MOST = 100;
const LONGEST = 100; // characters of one
const LETTERS = 511; // of all, where beginnings that they share count once

/** The phrases to expect, one a line or parted by commas. Another tab may have kept others. */
export const phrases = () =>
  byId("phrases").value.split(/[\n,;]/).map((each) => each.trim()).filter(Boolean);

export const cleanUp = () => byId("clean-up").checked;

/** The microphone, as a constraint. */
export function device() {
  const select = byId("device");
  // Before the permission no microphone has a name here, and the kept one cannot be chosen yet.
  return select.options.length > 1 ? { exact: select.value } : { ideal: settings.read().device };
}

export async function listDevices() {
  const select = byId("device");
  const chosen = select.value || settings.read().device;
  const options = (await devices()).map((each) => new Option(each.label, each.deviceId));
  select.replaceChildren(select.options[0], ...options);
  select.value = options.some((each) => each.value === chosen) ? chosen : "";
}

/** What is more in these phrases than a server takes, in words; "" if nothing is. */
export function excess(some) {
  if (some.length > MOST) return `Too many: ${some.length} names, at most ${MOST}.`;
  const characters = some.map((each) => [...each.toLowerCase()]);
  const long = characters.findIndex((each) => each.length > LONGEST);
  if (long >= 0) return `Too long: ${some[long].slice(0, 20)}…, at most ${LONGEST} letters.`;
  const beginnings = characters.flatMap((each) => each.map((_, i) => each.slice(0, i + 1).join("")));
  const letters = new Set(beginnings).size;
  return letters > LETTERS ? `Too many: ${letters} letters, at most ${LETTERS}.` : "";
}

function showExcess() {
  byId("excess").textContent = excess(phrases());
}

/** Show what is kept, and keep what is chosen from then on. */
export function fill() {
  const chosen = settings.read();
  for (const [id, name] of Object.entries(KEPT)) {
    const element = byId(id);
    const property = element.type === "checkbox" ? "checked" : "value";
    if (id !== "device") element[property] = chosen[name];
    element.addEventListener("change", () => settings.change({ [name]: element[property] }));
  }
  byId("phrases").addEventListener("input", showExcess);
  navigator.mediaDevices?.addEventListener?.("devicechange", listDevices);
  showExcess();
  listDevices();
}
