/** The page: its elements, and what each does. Everything else is in the modules named below. */

import * as about from "./about.js";
import { UNKNOWN, attention } from "./attention.js";
import { captionMode } from "./caption-mode.js";
import { Delay } from "./delay.js";
import { save, text } from "./download.js";
import { words } from "./failures.js";
import { clock, seconds } from "./format.js";
import { Announcer } from "./announcer.js";
import { KeyForm, kept, takeFromAddress } from "./key.js";
import { menus } from "./menus.js";
import { meter } from "./pcm.js";
import { LETTER, Picture, SCALE } from "./picture.js";
import { Player } from "./player.js";
import { Recording } from "./recording.js";
import { Sample } from "./sample.js";
import * as settings from "./settings.js";
import * as form from "./settings-form.js";
import { Sound } from "./sound.js";
import { microphone, obstacle, sharedSound } from "./sources.js";
import { Status } from "./status.js";
import { Take, streamAddress } from "./take.js";
import { Timeline } from "./timeline.js";
import { Transcript } from "./transcript.js";

const byId = (id) => document.getElementById(id);
const wallClock = () => performance.now() / 1000;
const debug = new URLSearchParams(location.search).has("debug");

const takes = []; // {name, began, model, timeline} of what stands on the page
let take = null; // the one that runs, or null
let again = () => startMicrophone(); // what "Try again" does
const OF_ONE = new Set(["not-audio", "too-large", "cut-short"]); // of recordings: others may be whole
let waiting = []; // recordings that were opened together: one is heard after another
let unread = []; // those of them that could not be read, to be tried again
let wrong = []; // Failures of those that were not heard whole
let isSaved = true; // the text was saved or copied, or there is none
let following = null; // the timer that follows what is played
let lock = null; // keeps the screen on
let sight = UNKNOWN; // what the model's attention looks at

const player = new Player((playing) => {
  byId("play").textContent = playing ? "Stop playing" : "Play";
  if (playing) return followPlayer();
  picture.play(picture.timeline, null);
  return transcript.point(null, null);
});
const picture = new Picture(byId("picture"), { play, frozen: showFrozen });
const transcript = new Transcript(byId("transcript"), byId("hint"), {
  point: (timeline, second) => take || picture.show(timeline, second),
  play,
});
const keyForm = new KeyForm(byId("key-form"), byId("key-forget"), showInfo);
const announcer = new Announcer(byId("spoken"));
const status = new Status(byId("status"), byId("left"));

const LABELS = {
  idle: "Start",
  opening: "Cancel",
  connecting: "Cancel",
  listening: "Stop",
  paused: "Stop",
  finishing: "Finishing",
};

/** Put the page into a state; only app.js and style.css know what each looks like. */
function show(state) {
  const held = document.activeElement;
  document.body.dataset.state = state;
  const lost = document.body.dataset.link === "lost";
  byId("toggle-label").textContent = state === "finishing" && lost ? "Give up" : LABELS[state];
  byId("toggle").setAttribute("aria-disabled", String(state === "finishing" && !lost));
  byId("pause").hidden = !(take?.source.live && (state === "listening" || state === "paused"));
  byId("pause").textContent = state === "paused" ? "Go on" : "Pause";
  const idle = state === "idle";
  for (const id of ["sample", "open", "share", "device", "clean-up", "retry"]) byId(id).disabled = !idle;
  byId("freeze").hidden = idle;
  byId("play").hidden = !idle;
  byId("clear").disabled = !idle || !byId("hint").hidden;
  showText();
  // From an element that has gone, the keyboard would begin at the top of the page again.
  if (held?.disabled || !held?.getClientRects().length) byId("toggle").focus();
}

function showText() {
  const none = !takes.some(({ timeline }) => timeline.marks.length);
  byId("copy").disabled = none;
  byId("download").firstElementChild.setAttribute("aria-disabled", String(none));
  if (none) byId("download").open = false;
}

/** Say what went wrong; of several failures one that can be tried again, and the origin of each. */
function showFailure(...failures) {
  const failure = failures.findLast(({ code }) => code !== "cut-short") ?? failures[0];
  if (failure.code === "unauthorized") return keyForm.ask();
  const { title, advice } = words(failure);
  const origin = failures.map((each) => words(each).origin).join("\n");
  for (const [name, said] of Object.entries({ title, advice, origin })) {
    const part = byId(`failure-${name}`);
    if (part.textContent !== said) part.textContent = said; // else it would be read out again
  }
  byId("retry").hidden = failure.code === "cut-short"; // it would end there again
  byId("failure").hidden = false;
  return undefined;
}

function showInfo(info, fromForm) {
  byId("info").hidden = kept() !== ""; // a link has no headers
  sight = attention(info);
  byId("error-sentence").textContent = about.sentence(info);
  byId("about-sentence").textContent = about.sentence(info);
  byId("errors").hidden = false;
  byId("legend").textContent =
    `Letters stand where they were heard. ${sight.describe} Press to listen.`;
  about.fill(document, info);
  if (fromForm) byId("toggle").focus(); // the form is gone
}

function showLevel(rms) {
  const level = meter(rms);
  byId("meter").style.setProperty("--level", level.toFixed(3));
  byId("meter").setAttribute("aria-valuenow", String(Math.round(level * 100)));
}

function showElapsed(elapsed) {
  const shown = clock(elapsed);
  if (byId("elapsed").textContent !== shown) byId("elapsed").textContent = shown;
}

function showPicture() {
  byId("sight").classList.toggle("off", !settings.read().picture);
}

function showFrozen(frozen) {
  byId("freeze").textContent = frozen ? "Follow" : "Freeze";
}

/** Run one take from `source` to its end. */
function run(source) {
  const sound = new Sound();
  const timeline = new Timeline(sound, sight, LETTER / SCALE);
  let delay = new Delay();
  player.stop();
  if (!wrong.length) byId("failure").hidden = true;
  byId("key-form").hidden = true;
  byId("meter").hidden = !source.live;
  byId("progress").hidden = source.live;
  byId("progress").value = 0;
  byId("delay").textContent = seconds(null);
  showElapsed(0);
  if (debug) window.cortadoSent = [];

  /** The second at the picture's right edge: what the microphone hears now, or what is decided. */
  const now = () => (source.live
    ? Math.min(delay.now(wallClock()), sound.seconds + 0.1)
    : timeline.spoken);

  const enter = {
    opening: () => status.say(source.waits ?? `Reading ${source.name}`),
    connecting: () => status.say("Connecting"),
    listening: (ready) => {
      delay = new Delay(); // after a pause the clock has another distance to the sound
      if (ready) begin(ready);
      status.listen(source);
      stayAwake();
    },
    paused: () => {
      showLevel(0);
      status.say("Paused");
    },
    finishing: () => {
      showLevel(0);
      status.say("Waiting for the last characters");
    },
    done: end,
    cancelled: end,
    failed: (failure) => {
      leave(`${captionOf()}, broken off`);
      if (!source.file || !OF_ONE.has(failure.code)) return showFailure(failure);
      if (failure.code !== "cut-short") unread.push(source.file); // what there is of that was heard
      wrong.push(failure);
      return setTimeout(hearOthers);
    },
  };

  function end() {
    leave(captionOf());
    setTimeout(hearOthers); // once this take has left
  }

  const captionOf = () =>
    [`${source.name}, ${seconds(sound.seconds, 1)}`, source.words && `what was read: “${source.words}”`]
      .filter(Boolean)
      .join("; ");

  function begin({ model }) {
    if (source.live) form.listDevices();
    takes.push({ name: source.name, began: new Date().toISOString(), model, timeline });
    transcript.begin(timeline);
    byId("sight").hidden = false;
    picture.follow(timeline, now);
  }

  function leave(caption) {
    transcript.end(caption);
    announcer.end();
    announcer.say(caption);
    take = null;
    lock?.release();
    delete document.body.dataset.link;
    showLevel(0);
    byId("progress").hidden = true;
    byId("meter").hidden = false;
    picture.rest();
    status.rest();
  }

  function endUtterance() {
    timeline.endUtterance();
    transcript.breakLine();
    announcer.end();
  }

  take = new Take(source, streamAddress(location.href), {
    state: (state, detail) => {
      enter[state](detail);
      show(take ? state : "idle");
    },
    link: (state, reason) => {
      document.body.dataset.link = state;
      status.link(state, reason);
      if (take && document.body.dataset.state === "finishing") show("finishing");
    },
    frame: (frame) => {
      sound.append(frame.bytes);
      if (source.live) {
        picture.hear(frame.bytes);
        delay.heard(sound.seconds, wallClock());
        showLevel(frame.rms);
        status.hear(source, frame);
        status.waiting(take.stream.waiting);
      } else {
        byId("progress").value = take.stream.decided / source.seconds;
        status.progress(source, take.stream.decided, wallClock());
      }
      showElapsed(sound.seconds);
      if (debug) window.cortadoSent.push(frame.bytes);
    },
    characters: (some) => {
      timeline.mark(some);
      transcript.append(some);
      isSaved = false;
      if (source.live) announcer.append(some); // a file's text would be read out for hours
      if (byId("copy").disabled) showText();
      // A recording is sent faster than it was spoken, and the end of a take is not waited for.
      if (!source.live || take.state !== "listening") return;
      for (const { time } of some) delay.shown(time, wallClock());
      byId("delay").textContent = seconds(delay.seconds);
    },
    endpoint: endUtterance,
    restarted: () => {
      endUtterance(); // the words on both sides do not belong together
      status.restarted();
    },
  }, { key: kept(), phrases: form.phrases() });
  if (debug) Object.assign(window, { cortadoTake: take, cortadoTakes: takes, cortadoPicture: picture });
  take.run();
}

function start(source, anew) {
  if (take) return;
  again = anew;
  [waiting, unread, wrong] = [[], [], []];
  run(source);
}

const startMicrophone = () => start(microphone(form.device(), form.cleanUp()), startMicrophone);
const startSample = () => start(new Sample(), startSample);
const startShared = () => start(sharedSound(), startShared);

function startRecordings(files) {
  if (!files.length) return;
  if (take) return status.note("Stop first, then open the recording again");
  [unread, wrong] = [[], []];
  return hear(files);
}

function hear([first, ...others]) {
  again = () => hear([first, ...others]);
  waiting = others;
  run(new Recording(first));
}

/** Hear the recordings that wait; when none does, those that were not read can be tried again. */
function hearOthers() {
  if (take) return;
  if (waiting.length) hear(waiting);
  else again = () => startRecordings(unread);
  if (wrong.length) showFailure(...wrong);
}

/** Keep the screen on while a take runs: captions are read, and a telephone that sleeps hears nothing. */
async function stayAwake() {
  if (!take || document.hidden || lock?.released === false) return;
  lock = await navigator.wakeLock?.request("screen").catch(() => null); // where the battery is low
  if (!take) lock?.release();
}

/** Play a take from a second on. */
function play(timeline, second) {
  if (!timeline) return;
  if (take) picture.freeze(true);
  player.play(timeline, second).catch((failure) => {
    if (!take) again = () => play(timeline, second);
    showFailure(failure);
  });
}

function followPlayer() {
  clearTimeout(following); // each press of play comes here
  const { time, timeline } = player;
  if (!timeline) return;
  if (time !== null) {
    picture.play(timeline, time);
    transcript.point(timeline, time);
  }
  following = setTimeout(followPlayer, 40);
}

async function copy() {
  try {
    await navigator.clipboard.writeText(text(takes));
  } catch {
    // Where the page is not secure there is no clipboard; the selection is then ready for Ctrl+C.
    getSelection().selectAllChildren(byId("transcript"));
    status.note("Selected: press Ctrl+C to copy");
    return;
  }
  isSaved = true;
  byId("copy").textContent = "Copied";
  announcer.say("Copied");
  setTimeout(() => (byId("copy").textContent = "Copy"), 1500);
}

function clear() {
  player.stop();
  isSaved = true;
  takes.length = 0;
  transcript.clear();
  announcer.clear();
  picture.clear();
  byId("sight").hidden = true;
  byId("failure").hidden = true;
  byId("delay").textContent = seconds(null);
  showElapsed(0);
  show("idle");
  status.say("");
  byId("toggle").focus();
}

const press = {
  toggle: () => {
    waiting = [];
    return take ? take.stop() : startMicrophone();
  },
  pause: () => take?.pause(),
  sample: startSample,
  share: startShared,
  open: () => byId("file").click(),
  copy,
  clear,
  play: () => (player.timeline ? player.stop() : play(picture.timeline, 0)),
  freeze: () => picture.freeze(!picture.frozen),
  "about-open": () => byId("about").showModal(),
  retry: () => {
    byId("failure").hidden = true;
    byId("toggle").focus(); // the button that was pressed has gone
    again();
  },
};
for (const [id, act] of Object.entries(press)) byId(id).addEventListener("click", act);
for (const button of document.querySelectorAll("[data-format]")) {
  button.addEventListener("click", () => {
    save(takes, button.dataset.format);
    isSaved = true;
  });
}
byId("file").addEventListener("change", ({ target }) => {
  startRecordings(target.files);
  target.value = ""; // so that the same file can be opened again
});

form.fill();
document.addEventListener("settingschange", () => {
  showPicture();
  transcript.toEnd();
});
document.addEventListener("themechange", () => picture.recolour());
captionMode(byId("captions"), byId("captions-leave"), () => transcript.toEnd());
menus([byId("download"), byId("settings")]);

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
  startRecordings(event.dataTransfer.files);
});
window.addEventListener("online", () => take?.stream.retry());
window.addEventListener("beforeunload", (event) => isSaved || event.preventDefault());
document.addEventListener("visibilitychange", stayAwake); // a page that is hidden loses its lock

for (const id of ["toggle", "captions"]) byId(id).disabled = false;
show("idle");
showPicture();
byId("share").hidden = !navigator.mediaDevices?.getDisplayMedia; // telephones have none
takeFromAddress();
keyForm.look().catch(() => {}); // a server that is gone is told on Start, with what helps
window.addEventListener("hashchange", () => {
  if (takeFromAddress()) keyForm.look().catch(() => {}); // a link with a key, in a page that is open
});
const failure = obstacle();
if (failure) showFailure(failure); // say at once that this page cannot record, not on Start
