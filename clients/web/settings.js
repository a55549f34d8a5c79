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
