/** What somebody chose, kept in this browser. */

const KEY = "cortado";
let unkept = {}; // what was chosen in this visit, where the browser keeps nothing
const DEFAULTS = {
  device: "",
  cleanUp: false,
  phrases: "",
  picture: true,
  size: "normal",
  theme: "system",
  key: "",
};

/** The settings as they are kept; what is not kept or cannot be read is as by default. */
export function read() {
  try {
    const found = JSON.parse(localStorage.getItem(KEY)) ?? {};
    const known = Object.entries(DEFAULTS).map(([name, value]) =>
      [name, typeof found[name] === typeof value ? found[name] : value]);
    return Object.fromEntries(known);
  } catch {
    return { ...DEFAULTS, ...unkept }; // the browser keeps nothing, or what it keeps is damaged
  }
}

// What a server takes of names; docs/engine.md says how they are stored.
const MOST = 100;
const LONGEST = 100; // characters of one
const LETTERS = 511; // of all, where beginnings that they share count once

/** The phrases in a text, one a line or parted by commas. */
export const phrases = (text) => text.split(/[\n,;]/).map((each) => each.trim()).filter(Boolean);

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

/** Keep some settings, and tell the page. */
export function change(some) {
  unkept = { ...unkept, ...some };
  try {
    localStorage.setItem(KEY, JSON.stringify({ ...read(), ...some }));
  } catch {
    // a browser that keeps nothing has them for this visit
  }
  document.dispatchEvent(new Event("settingschange"));
}
