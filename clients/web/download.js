/** Takes as files: txt, srt, vtt and json. */

import { cues, srt, textOf, vtt, words } from "./captions.js";

/**
 * @typedef {{name: string, began: string, model: string, timeline: import("./timeline.js").Timeline}} TakeRecord
 */

/** The whole text, a line for each utterance and a blank line between takes. */
export function text(takes) {
  const lines = (take) => take.timeline.utterances.map(textOf).filter(Boolean).join("\n");
  return takes.map(lines).filter(Boolean).join("\n\n");
}

/** Captions of all takes, as if each began where the one before ended. */
function allCues(takes) {
  let before = 0;
  const utterances = takes.flatMap(({ timeline }) => {
    const by = before;
    const shifted = (word) => ({ ...word, start: word.start + by, end: word.end + by });
    before += timeline.seconds;
    return timeline.utterances.map((each) => words(each).map(shifted));
  });
  return cues(utterances);
}

function whole({ name, began, model, timeline }) {
  const bare = ({ text: character, time }) => ({ text: character, time });
  return {
    source: name,
    began,
    model,
    duration: Math.round(timeline.seconds * 1000) / 1000,
    text: textOf(timeline.marks),
    utterances: timeline.utterances.map((each) => {
      const found = words(each);
      return { start: found[0]?.start, end: found.at(-1)?.end, text: textOf(each), words: found };
    }).filter((each) => each.text),
    characters: timeline.marks.map(bare),
  };
}

/** Each format's type, and what it makes of takes. */
export const FORMATS = {
  txt: ["text/plain", (takes) => `${text(takes)}\n`],
  srt: ["application/x-subrip", (takes) => srt(allCues(takes))],
  vtt: ["text/vtt", (takes) => vtt(allCues(takes))],
  json: ["application/json", (takes) => `${JSON.stringify({ takes: takes.map(whole) }, null, 2)}\n`],
};

/** Let the browser save takes as a file. @param {TakeRecord[]} takes */
export function save(takes, format) {
  const [type, write] = FORMATS[format];
  const address = URL.createObjectURL(new Blob([write(takes)], { type: `${type};charset=utf-8` }));
  const began = takes[0].began.slice(0, 16).replace("T", "-").replaceAll(":", "");
  const link = Object.assign(document.createElement("a"), {
    href: address,
    download: `cortado-${began}.${format}`,
  });
  link.click();
  setTimeout(() => URL.revokeObjectURL(address), 10_000);
}
