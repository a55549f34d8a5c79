/** The page: its elements, and what each does. Everything else is in the modules named below. */

import { Announcer } from "./announcer.js";
import { streamAddress } from "./connection.js";
import { Delay } from "./delay.js";
import { words } from "./failures.js";
import { clock, seconds } from "./format.js";
import { characters } from "./messages.js";
import { Microphone, devices, obstacle } from "./microphone.js";
import { meter } from "./pcm.js";
import { Picture } from "./picture.js";
import { Recording } from "./recording.js";
import { Take } from "./take.js";
import { Timeline } from "./timeline.js";
import { Transcript } from "./transcript.js";

const byId = (id) => document.getElementById(id);
const wallClock = () => performance.now() / 1000;

const transcript = new Transcript(byId("transcript"), byId("hint"));
const announcer = new Announcer(byId("spoken"));
const picture = new Picture(byId("picture"));
const debug = new URLSearchParams(location.search).has("debug");

let take = null; // the one that runs, or null
let again = () => startMicrophone(); // what "Try again" does

const LABELS = {
  idle: "Start",
  opening: "Cancel",
  connecting: "Cancel",
  listening: "Stop",
  finishing: "Finishing",
};

const HEARING = { ok: "Listening", slow: "Slow connection: sound is waiting to be sent" };

/** Show a line of status; the same line again is no news to a screen reader. */
function say(text) {
  if (byId("status").textContent !== text) byId("status").textContent = text;
}

/** Put the page into a state; only app.js and style.css know what each looks like. */
function show(state, status = "") {
  document.body.dataset.state = state;
  byId("toggle-label").textContent = LABELS[state];
  byId("toggle").setAttribute("aria-disabled", String(state === "finishing"));
  say(status);
  const idle = state === "idle";
  for (const id of ["open", "device", "clean-up", "retry"]) byId(id).disabled = !idle;
  byId("copy").disabled = !transcript.text;
  byId("clear").disabled = !idle || byId("hint").hidden === false;
}

function showFailure(failure) {
  const { title, advice, origin } = words(failure);
  byId("failure-title").textContent = title;
  byId("failure-advice").textContent = advice;
  byId("failure-origin").textContent = origin;
  byId("failure").hidden = false;
}

function showModel({ model, lookahead_ms: ahead }) {
  byId("model").textContent = `${model}, ${ahead} ms of look-ahead`;
}

function showLevel(rms) {
  const level = meter(rms);
  byId("meter").style.setProperty("--level", level.toFixed(3));
  byId("meter").setAttribute("aria-valuenow", String(Math.round(level * 100)));
}

/** Run one take from `source` to its end. */
function run(source) {
  const timeline = new Timeline();
  const delay = new Delay();
  byId("failure").hidden = true;
  byId("elapsed").textContent = clock(0);
  byId("delay").textContent = seconds(null);
  if (debug) window.cortadoSent = [];

  const enter = {
    opening: () => show("opening", source.live ? "Waiting for the microphone" : `Reading ${source.name}`),
    connecting: () => show("connecting", "Connecting"),
    listening: (ready) => {
      showModel(ready);
      if (source.live) listDevices();
      transcript.begin(timeline);
      picture.follow(timeline, () => (source.live ? delay.now(wallClock()) : timeline.seconds));
      show("listening", source.live ? HEARING.ok : `Hearing ${source.name}`);
    },
    finishing: () => show("finishing", "Waiting for the last characters"),
    done: (final) => {
      const caption = `${source.name}, ${seconds(final.duration, 1)}`;
      if (final.omitted) return transcript.end(caption); // what stands here is more than it holds
      timeline.settle(characters(final));
      transcript.settle(characters(final), caption);
    },
    ended: () => leave(),
    cancelled: () => leave(),
    failed: (failure) => {
      transcript.end(`${source.name}, ${seconds(timeline.seconds, 1)}, broken off`);
      leave();
      showFailure(failure);
    },
  };

  function leave() {
    take = null;
    announcer.end();
    showLevel(0);
    picture.rest();
    show("idle");
  }

  take = new Take(source, streamAddress(location.href), {
    state: (state, detail) => enter[state](detail),
    frame: (frame) => {
      timeline.hear(frame);
      delay.heard(timeline.seconds, wallClock());
      showLevel(frame.rms);
      byId("elapsed").textContent = clock(timeline.seconds);
      if (debug) window.cortadoSent.push(frame.bytes);
    },
    characters: (some) => {
      timeline.mark(some);
      transcript.append(some);
      announcer.append(some);
      byId("copy").disabled = false;
      // A recording is sent faster than it was spoken, and the end of a take is not waited for.
      if (!source.live || take.state !== "listening") return;
      for (const { time } of some) delay.shown(time, wallClock());
      byId("delay").textContent = seconds(delay.seconds);
    },
    endpoint: () => transcript.breakLine(),
    pressure: (pressure) => {
      if (source.live && document.body.dataset.state === "listening") say(HEARING[pressure]);
    },
  });
  take.run();
}

function startMicrophone() {
  again = startMicrophone;
  run(new Microphone({ device: byId("device").value, cleanUp: byId("clean-up").checked }));
}

function startRecording(file) {
  if (take || !file) return;
  again = () => startRecording(file);
  run(new Recording(file));
}

async function listDevices() {
  const select = byId("device");
  const chosen = select.value;
  const options = (await devices()).map((each) => new Option(each.label, each.deviceId));
  select.replaceChildren(select.options[0], ...options);
  select.value = options.some((each) => each.value === chosen) ? chosen : "";
}

async function copy() {
  try {
    await navigator.clipboard.writeText(transcript.text);
  } catch {
    // Where the page is not secure there is no clipboard; the selection is then ready for Ctrl+C.
    getSelection().selectAllChildren(byId("transcript"));
    say("Selected: press Ctrl+C to copy");
    return;
  }
  byId("copy").textContent = "Copied";
  setTimeout(() => (byId("copy").textContent = "Copy"), 1500);
}

byId("toggle").addEventListener("click", () => (take ? take.stop() : startMicrophone()));
byId("retry").addEventListener("click", () => {
  byId("toggle").focus(); // the button that was pressed goes away
  again();
});
byId("copy").addEventListener("click", copy);
byId("clear").addEventListener("click", () => {
  transcript.clear();
  announcer.clear();
  picture.clear();
  byId("failure").hidden = true;
  show("idle");
  byId("toggle").focus();
});
byId("open").addEventListener("click", () => byId("file").click());
byId("file").addEventListener("change", ({ target }) => {
  startRecording(target.files[0]);
  target.value = ""; // so that the same file can be opened again
});
byId("transcript").addEventListener("pointerover", ({ target }) => {
  const { timeline } = target.parentElement;
  if (target.dataset.time && timeline) picture.show(timeline, Number(target.dataset.time));
});

document.addEventListener("dragover", (event) => {
  event.preventDefault();
  document.body.classList.toggle("dropping", !take);
});
document.addEventListener("dragleave", (event) => {
  if (!event.relatedTarget) document.body.classList.remove("dropping");
});
document.addEventListener("drop", (event) => {
  event.preventDefault();
  document.body.classList.remove("dropping");
  startRecording(event.dataTransfer.files[0]);
});

show("idle");
fetch("v1/info")
  .then((answer) => answer.json())
  .then(showModel)
  .catch(() => {}); // a server that is gone is told on Start, with what helps
const failure = obstacle();
if (failure) showFailure(failure); // say at once that this page cannot record, not on Start
