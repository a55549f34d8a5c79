/** Texts with times: words of characters, captions of words, and the formats that hold them. */

const LINE = 42; // characters in a line of a caption
const LINES = 2;
const PAUSE = 0.8; // seconds between words at which a caption ends
const LONGEST = 6; // seconds that a caption stands
const SHORTEST = 0.8; // seconds, where there is room before the next
const FRAME = 0.04; // seconds before its instant that a first character began to be heard

/**
 * @typedef {{text: string, start: number, end: number}} Word
 * @typedef {{start: number, end: number, lines: string[]}} Cue
 */

/** The words of characters. @returns {Word[]} */
export function words(characters) {
  const found = [];
  let open = false;
  for (const { text, time } of characters) {
    if (!text.trim()) {
      open = false;
    } else if (open) {
      found.at(-1).text += text;
      found.at(-1).end = time;
    } else {
      found.push({ text, start: Math.max(found.at(-1)?.end ?? 0, time - FRAME), end: time });
      open = true;
    }
  }
  return found.map(({ text, start, end }) => ({ text, start: rounded(start), end: rounded(end) }));
}

/** The text of characters, without spaces at its ends. */
export function textOf(characters) {
  return characters.map((each) => each.text).join("").trim();
}

/** Captions of an utterance's words. @param {Word[]} some  @returns {Cue[]} */
export function cues(some) {
  const groups = [];
  for (const word of some) {
    const group = groups.at(-1);
    if (group && fits(group, word)) group.push(word);
    else groups.push([word]);
  }
  return groups.map((group, i) => {
    const start = group[0].start;
    const next = groups[i + 1]?.[0].start ?? Infinity;
    const end = Math.max(group.at(-1).end, Math.min(start + SHORTEST, next));
    return { start, end: rounded(end), lines: wrapped(group) };
  });
}

function fits(group, word) {
  if (word.start - group.at(-1).end > PAUSE || word.end - group[0].start > LONGEST) return false;
  return wrapped([...group, word]).length <= LINES;
}

/** Words in lines, as full as they go. */
function wrapped(group) {
  const lines = [];
  for (const { text } of group) {
    const longer = lines.length ? `${lines.at(-1)} ${text}` : text;
    if (lines.length && longer.length <= LINE) lines[lines.length - 1] = longer;
    else lines.push(text);
  }
  return lines;
}

const rounded = (seconds) => Math.round(seconds * 1000) / 1000;

function timecode(seconds, mark) {
  const ms = Math.round(seconds * 1000);
  const two = (value) => String(Math.floor(value)).padStart(2, "0");
  const rest = String(ms % 1000).padStart(3, "0");
  return `${two(ms / 3600000)}:${two((ms / 60000) % 60)}:${two((ms / 1000) % 60)}${mark}${rest}`;
}

/** @param {Cue[]} some */
export function srt(some) {
  const code = (seconds) => timecode(seconds, ",");
  return some
    .map(({ start, end, lines }, i) => `${i + 1}\n${code(start)} --> ${code(end)}\n${lines.join("\n")}\n`)
    .join("\n");
}

/** @param {Cue[]} some */
export function vtt(some) {
  const code = (seconds) => timecode(seconds, ".");
  const blocks = some.map(({ start, end, lines }) => `${code(start)} --> ${code(end)}\n${lines.join("\n")}\n`);
  return `WEBVTT\n\n${blocks.join("\n")}`;
}
