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

/** The phrases to expect. Another tab may have kept others. */
export const phrases = () => settings.phrases(byId("phrases").value);

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

function showExcess() {
  byId("excess").textContent = settings.excess(phrases());
}

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
