// The page of an evaluation, from the data inside it.

const data = JSON.parse(document.getElementById("data").textContent);
const UNITS = { word: "words", char: "characters", phone: "phones" };
const NAMES = { word: "word", char: "character", phone: "phone" };

function figure(name, value, detail = "", kind = "") {
  const shown = element("dd", {}, value);
  if (detail) shown.append(" ", element("small", {}, detail));
  return element("div", { className: kind }, element("dt", {}, name), shown);
}

function figures(set) {
  const { score, delay, unit } = set;
  if (!score) return element("p", {}, "Nothing of this set could be read.");
  const chars = unit === "char";
  const phones = unit === "phone"; // whose letters mean nothing
  const main = chars ? [score.cer, score.cer_ci95] : [score.wer, score.wer_ci95];
  const other = chars ? [score.wer, score.wer_ci95] : [score.cer, score.cer_ci95];
  return element(
    "dl",
    { className: "figures" },
    figure(`${NAMES[unit]} error rate${phones ? " (PER)" : ""}`, `${percent(main[0])} %`, interval(main[1]), "main"),
    phones ? null : figure(chars ? "word error rate" : "character error rate", `${percent(other[0])} %`, interval(other[1])),
    figure("substituted, left out, put in", `${score.substitutions} · ${score.deletions} · ${score.insertions}`),
    delay && figure("emission delay, p50 and p90", `${Math.round(delay.p50_ms)} · ${Math.round(delay.p90_ms)} ms`),
    figure("real-time factor", set.rtf.toFixed(4)),
    figure("utterances", set.utterances.toLocaleString("en"), `${set.hours.toFixed(2)} hours`),
  );
}

function significance(bounds) {
  if (!bounds) return "one does not tell whether that is significant";
  return bounds[0] <= 0 && bounds[1] >= 0 ? "not significant" : "significant";
}

function verdict(set) {
  return data.comparisons
    .filter((one) => one.name === set.name)
    .map((one) =>
      element(
        "p",
        { className: "verdict" },
        `${percent(one.rate)} % against ${percent(one.other_rate)} % of ${one.other}: ` +
          `${(100 * one.difference).toFixed(2)} points (95 % interval ${interval(one.ci95)}) on ` +
          `${one.utterances} utterances: ${significance(one.ci95)}.`,
      ),
    );
}

const rateColumns = (most) => [
  { name: "rate %", value: (row) => row.rate, show: (row) => percent(row.rate), share: (row) => row.rate / most },
  { name: "95 %", value: (row) => row.rate_ci95?.[0] ?? row.rate, show: (row) => interval(row.rate_ci95) },
  { name: "sub", value: (row) => row.substitutions },
  { name: "del", value: (row) => row.deletions },
  { name: "ins", value: (row) => row.insertions },
];

function group(set, { name, rows }) {
  const most = Math.max(...rows.map((row) => row.rate), 0.01);
  const columns = [
    { name, value: (row) => row.order ?? row.name, show: (row) => row.name, text: true },
    { name: "utt.", value: (row) => row.utterances },
    { name: UNITS[set.unit], value: (row) => row.length },
    ...rateColumns(most),
  ];
  if (name === "length") rows.forEach((row, k) => (row.order = k));
  return element("div", {}, element("h3", {}, `By ${name}`), table(columns, rows));
}

function tokens(name, rows, columns) {
  const made = columns.map((one, k) => ({
    name: one,
    value: (row) => row[k],
    show: (row) => seen(row[k]),
    kind: "text token",
    text: true,
  }));
  const most = Math.max(...rows.map((row) => row.at(-1)), 1);
  const times = { name: "times", value: (row) => row.at(-1), share: (row) => row.at(-1) / most };
  return element("div", {}, element("h3", {}, name), table([...made, times], rows));
}

function confusionSection(set) {
  const { substituted, deleted, inserted } = set.confusions;
  const letters = set.unit === "phone" ? "phones" : "characters";
  return element(
    "section",
    {},
    element(
      "div",
      { className: "columns" },
      tokens("Taken for others", substituted, ["said", "heard"]),
      tokens("Left out", deleted, ["said"]),
      tokens("Put in", inserted, ["heard"]),
    ),
    element(
      "section",
      {},
      element("h3", {}, `Which ${letters} are taken for which`),
      element("p", { className: "note" }, "Each row is what was said, in shares of it; grey is right. ∅ is nothing: the last column was left out, the last row put in."),
      element("div", { className: "matrix" }, confusionPicture(set.symbols, set.matrix)),
    ),
  );
}

function delaySection(set) {
  if (!set.delay) return null;
  return element(
    "section",
    {},
    element("h3", {}, "Emission delay"),
    element(
      "p",
      { className: "note" },
      `From the end of a character, by CTC forced alignment of the reference with the same model or by --aligner, to ` +
        `the end of the 40 ms step that wrote it, the look-ahead of ${set.delay.lookahead_ms} ms included; ` +
        `${set.delay.characters.toLocaleString("en")} correct characters, without spaces.`,
    ),
    element("div", { className: "matrix" }, histogram(set.delays, set.delay)),
  );
}

function utterance(row, unit) {
  const made = element(
    "div",
    { className: "utterance" },
    element(
      "div",
      { className: "head" },
      element("code", {}, row.id),
      element("span", { className: "note" }, `speaker ${row.speaker} · ${row.seconds} s · ${row.errors} errors in ${row.length} ${UNITS[unit]}`),
      row.audio ? element("audio", { controls: true, preload: "none", src: row.audio, ariaLabel: `Sound of ${row.id}` }) : null,
    ),
    diff(row.edits, unit),
  );
  if (row.attention) {
    const place = element("div", { className: "picture" });
    made.append(place);
    whenNear(place, () => place.append(followed(row.attention, made.querySelector("audio"))));
  }
  return made;
}

// Pictures are drawn as they are scrolled to; the page opens sooner.
const waiting = new Map();
const watcher = new IntersectionObserver(
  (seen) => {
    for (const { target, isIntersecting } of seen) {
      if (!isIntersecting) continue;
      watcher.unobserve(target);
      waiting.get(target)();
      waiting.delete(target);
    }
  },
  { rootMargin: "600px" },
);

function whenNear(target, draw) {
  waiting.set(target, draw);
  watcher.observe(target);
}

function followed(attention, audio) {
  const picture = attentionPicture(attention);
  const follow = () => {
    picture.follow(audio.currentTime);
    if (!audio.paused) requestAnimationFrame(follow);
  };
  audio.addEventListener("play", follow);
  audio.addEventListener("seeked", follow);
  return picture;
}

const legend = () =>
  element(
    "p",
    { className: "note legend" },
    "Above the reference, below the hypothesis:",
    element("span", { className: "sub" }, "taken for another"),
    element("span", { className: "del" }, "left out"),
    element("span", { className: "ins" }, "put in"),
  );

function worstSection(set) {
  if (!set.worst.length) return null;
  return element(
    "section",
    {},
    element("h3", {}, `The ${set.worst.length} utterances with the most errors`),
    element(
      "p",
      { className: "note" },
      "Their sound is inside this page as Opus at 26 kbit/s; that of the others is not. Each picture is the sound " +
        "(log-mel), each character where the attention stopped for it, and below, in lines by turns, the weights of the " +
        `40 ms frames that it was read from. ${set.drawn}`,
    ),
    legend(),
    ...set.worst.map((row) => utterance(row, set.unit)),
  );
}

function allSection(set) {
  for (const row of set.rows) {
    row.search = [row.id, row.speaker, ...row.edits.flat()].join(" ").toLowerCase();
  }
  const columns = [
    { name: "utterance", value: (row) => row.id, text: true },
    { name: "speaker", value: (row) => row.speaker, text: true },
    { name: "s", value: (row) => row.seconds },
    { name: "errors", value: (row) => row.errors },
    { name: "rate %", value: (row) => row.errors / Math.max(1, row.length), show: (row) => percent(row.errors / Math.max(1, row.length)) },
    { name: "delay ms", value: (row) => row.delay },
    { name: "said, heard", value: (row) => row.length, show: (row) => diff(row.edits, set.unit), kind: "texts", text: true },
  ];
  const all = table(columns, set.rows, { sorted: 3, tall: true });
  all.classList.add("all");
  const search = element("input", { type: "search", placeholder: "Find a word, an utterance, a speaker" });
  search.addEventListener("input", () => all.filter(search.value));
  const most = set.rows.length < set.utterances ? `${set.rows.length} of ${set.utterances} utterances, the worst` : "All utterances";
  return element("section", {}, element("h3", {}, most), search, all);
}

function article(set, k) {
  const made = element("article", { id: `set-${k}` });
  made.append(
    element("h2", {}, set.name),
    element("p", { className: "note" }, `${set.system}, ${set.mode} search. ${set.features} Normalisation ${set.normalisation}. Intervals: 95 %, bootstrap over speakers.`),
    figures(set),
    ...verdict(set),
  );
  if (set.phrases) made.append(element("p", { className: "verdict" }, set.phrases));
  if (set.unreadable.length) {
    made.append(element("p", { className: "verdict" }, `${set.unreadable.length} recordings could not be read: ${set.unreadable.join("; ")}`));
  }
  if (!set.score) return made;
  made.append(element("section", { className: "columns wide" }, ...set.groups.map((one) => group(set, one))));
  for (const part of [delaySection, confusionSection, worstSection, allSection]) {
    const section = part(set);
    if (section) made.append(section);
  }
  return made;
}

document.getElementById("main").append(...data.sets.map(article));
if (data.sets.length > 1) {
  document.getElementById("sets").append(
    ...data.sets.map((set, k) => element("a", { href: `#set-${k}` }, set.name)),
  );
}
document.title = `Cortado: ${data.sets.map((set) => set.name).join(", ")}`;
document.body.dataset.ready = "yes";
