/**
 * Texts with times: words of characters, captions of words, and the formats that hold them. The
 * rules and numbers are those of model/captions.py.
 */

const LINE = 42; // characters in a line of a caption
const LINES = 2;
const PAUSE = 1; // seconds between words at which a caption ends
const LONGEST = 7; // seconds that a caption stands
const SHORTEST = 1; // seconds, where there is room before the next
const FRAME = 0.04; // seconds before its instant that a first character began to be heard

/**
 * @typedef {{text: string, start: number, end: number, confidence: number}} Word
 * @typedef {{start: number, end: number, lines: string[]}} Cue
 */

/** The words of characters. @returns {Word[]} */
export function words(characters) {
  const found = [];
  let open = false;
  for (const { text, time, confidence = 1 } of characters) {
    if (!text.trim()) {
      open = false;
    } else if (open) {
      const word = found.at(-1);
      word.text += text;
      word.end = time;
      word.confidence = Math.min(word.confidence, confidence);
    } else {
      const start = Math.max(found.at(-1)?.end ?? 0, time - FRAME);
      found.push({ text, start, end: time, confidence });
      open = true;
    }
  }
  return found.map((word) => ({ ...word, start: rounded(word.start), end: rounded(word.end) }));
}

/** The text of characters, without spaces at its ends. */
export function textOf(characters) {
  return characters.map((each) => each.text).join("").trim();
}

/** Captions of utterances that follow one another. @param {Word[][]} utterances  @returns {Cue[]} */
export function cues(utterances) {
  const found = utterances.flatMap(parted);
  return found.map((caption, i) => {
    const start = caption[0].start;
    const heard = Math.max(caption.at(-1).end, start + SHORTEST);
    const end = Math.min(heard, start + LONGEST, found[i + 1]?.[0].start ?? Infinity);
    return { start, end: rounded(end), lines: wrapped(caption) };
  });
}

/** An utterance's words, parted at a pause, or where a caption is full. */
function parted(some) {
  let rest = some.flatMap(pieces);
  const found = [];
  while (rest.length) {
    let count = fitting(rest);
    if (count < rest.length && pause(rest, count) <= PAUSE) {
      // It is full. A phrase more likely ends at the longest pause in its second half.
      const half = Math.ceil(count / 2);
      for (let k = count - 1; k >= half; k -= 1) if (pause(rest, k) > pause(rest, count)) count = k;
    }
    found.push(rest.slice(0, count));
    rest = rest.slice(count);
  }
  return found;
}

/** How many of the first words fit in one caption. */
function fitting(some) {
  for (let count = 1; count < some.length; count += 1) {
    const long = some[count].end - some[0].start > LONGEST;
    if (pause(some, count) > PAUSE || long || wrapped(some.slice(0, count + 1)).length > LINES) return count;
  }
  return some.length;
}

/** Seconds between a word and the one before it. */
const pause = (some, index) => rounded(some[index].start - some[index - 1].end);

/** A word, cut where it is longer than a line; its time is parted evenly. */
function pieces({ text, start, end }) {
  if (text.length <= LINE) return [{ text, start, end }];
  const at = (cut) => rounded(start + ((end - start) * Math.min(cut, text.length)) / text.length);
  const found = [];
  for (let cut = 0; cut < text.length; cut += LINE) {
    found.push({ text: text.slice(cut, cut + LINE), start: at(cut), end: at(cut + LINE) });
  }
  return found;
}

/** Words in lines, as full as they go. */
function wrapped(some) {
  const lines = [];
  for (const { text } of some) {
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
  const escaped = (line) => line.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;");
  const blocks = some.map(
    ({ start, end, lines }) => `${code(start)} --> ${code(end)}\n${lines.map(escaped).join("\n")}\n`,
  );
  return `WEBVTT\n\n${blocks.join("\n")}`;
}
