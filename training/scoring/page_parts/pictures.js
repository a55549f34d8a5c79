// Pictures in SVG: delays, confusions, attention.

const NAMESPACE = "http://www.w3.org/2000/svg";

function shape(name, attributes = {}, ...children) {
  const made = document.createElementNS(NAMESPACE, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children);
  return made;
}

const label = (x, y, text, anchor = "middle") => shape("text", { x, y, "text-anchor": anchor }, text);
const drawing = (viewBox, name) => shape("svg", { viewBox, role: "img", "aria-label": name });
const hint = (text) => shape("title", {}, text);
const line = (x1, y1, x2, y2, kind) => shape("line", { x1, y1, x2, y2, class: kind });

// Delays: [milliseconds, characters] at multiples of 10 ms, in columns of 40 ms.
function histogram(delays, { p50_ms: p50, p90_ms: p90 }) {
  const [width, height, step] = [640, 180, 40];
  const low = -200; // what lies outside is in the outermost columns
  const high = Math.min(4000, Math.max(600, 2 * p90)) + step;
  const count = Math.ceil((high - low) / step);
  const columns = new Array(count).fill(0);
  for (const [at, many] of delays) {
    columns[Math.max(0, Math.min(count - 1, Math.round((at - low) / step)))] += many;
  }
  const most = Math.max(...columns);
  const bounds = (k) => {
    if (k === 0) return `${low} ms and less`;
    return k === count - 1 ? `${low + k * step} ms and more` : `${low + k * step} ms`;
  };
  const x = (at) => ((at - low + step / 2) / (count * step)) * width;
  const picture = drawing(
    `-8 -24 ${width + 16} ${height + 52}`,
    `Delays: half of the characters come within ${Math.round(p50)} ms, nine tenths within ${Math.round(p90)} ms.`,
  );
  picture.append(line(0, height, width, height, "grid"));
  columns.forEach((many, k) => {
    const tall = (many / most) * height;
    picture.append(
      shape(
        "rect",
        {
          x: (k / count) * width + 1,
          y: height - tall,
          width: width / count - 2,
          height: tall,
          class: "column",
        },
        hint(`${bounds(k)}: ${many} characters`),
      ),
    );
  });
  const every = [100, 200, 500, 1000].find((one) => (high - low) / one <= 12) ?? 1000;
  for (let at = Math.ceil(low / every) * every; at <= high - step; at += every) {
    picture.append(label(x(at), height + 18, at ? `${at}` : "0 ms"));
  }
  for (const [name, at] of [["p50", p50], ["p90", p90]]) {
    picture.append(line(x(at), -4, x(at), height, "mark"));
    const anchor = name === "p50" && Math.abs(x(p90) - x(p50)) < 90 ? "end" : "start";
    const shift = anchor === "end" ? -4 : 4;
    picture.append(label(x(at) + shift, -8, `${name} ${Math.round(at)} ms`, anchor));
  }
  return picture;
}

// Rows are symbols of the reference, columns of the hypothesis, by share of the row; the last is nothing.
function confusionPicture(symbols, matrix) {
  const size = Math.min(22, 600 / symbols.length);
  const whole = size * symbols.length;
  const names = symbols.map((one) => (one === "" ? "∅" : seen(one)));
  const picture = drawing(
    `-34 -40 ${whole + 40} ${whole + 62}`,
    "Said and heard, symbol by symbol; the tables above list what is most often wrong.",
  );
  const totals = matrix.map((row) => Math.max(1, row.reduce((sum, one) => sum + one, 0)));
  picture.append(label(-30, -26, "said ↓  heard →", "start"));
  matrix.forEach((row, i) => {
    picture.append(label(-8, (i + 0.5) * size + 4, names[i], "end"));
    picture.append(label((i + 0.5) * size, -6, names[i]));
    row.forEach((many, k) => {
      if (!many) return;
      const share = many / totals[i];
      const said = names[i] === "∅" ? `put in ${names[k]}` : `${names[i]} heard as ${names[k]}`;
      picture.append(
        shape(
          "rect",
          {
            x: k * size + 0.5,
            y: i * size + 0.5,
            width: size - 1,
            height: size - 1,
            rx: 2,
            class: i === k ? "cell right" : "cell",
            "fill-opacity": (i === k ? 0.15 + 0.5 * share : Math.min(1, 2.2 * Math.sqrt(share))).toFixed(3),
          },
          hint(`${said}: ${many} times, ${(100 * share).toFixed(1)} %`),
        ),
      );
    });
  });
  names.forEach((name, k) => picture.append(label((k + 0.5) * size, whole + 14, name)));
  return picture;
}

// The sound, the characters at their stops, and below the weights of each one's frames, in LANES
// lines in turn, so that chunks that overlap can be told apart.
const LANES = 6;

function attentionPicture({ seconds, picture, characters, spans }) {
  const [sound, lane] = [72, 5];
  const width = Math.max(480, seconds * 120);
  const x = (at) => (at / seconds) * width;
  const middle = sound + 24;
  const height = middle + lane * LANES + 4;
  const text = characters.map(([one]) => one).join("").trim();
  const made = drawing(
    `0 -2 ${width} ${height + 22}`,
    `The log-mel picture of ${seconds.toFixed(1)} s, and where the attention stopped for: ${text}`,
  );
  made.style.width = `${width}px`;
  made.append(
    shape("image", { href: picture, x: 0, y: 0, width, height: sound, preserveAspectRatio: "none" }),
  );
  let before = -Infinity;
  let raised = false;
  characters.forEach(([text, time], k) => {
    const at = x(time);
    made.append(line(at, 0, at, sound, "stop"));
    if (text === " ") return;
    raised = at - before < 9 && !raised;
    before = at;
    const written = label(at, sound + (raised ? 10 : 20), text);
    written.setAttribute("class", "character");
    written.append(hint(`${text} at ${time.toFixed(2)} s`));
    made.append(written);
  });
  for (const [k, begin, weight] of spans) {
    made.append(
      shape("rect", {
        x: x(begin),
        y: middle + lane * (k % LANES),
        width: Math.max(1, x(0.04) - 0.5),
        height: lane - 1,
        class: "chunk",
        "fill-opacity": weight,
      }),
    );
  }
  made.append(line(0, height, width, height, "grid"));
  for (let at = 0; at <= seconds; at += seconds > 12 ? 2 : 1) {
    made.append(label(x(at), height + 15, `${at} s`, at ? "middle" : "start"));
  }
  const playhead = line(0, 0, 0, height, "playhead");
  playhead.setAttribute("visibility", "hidden");
  made.append(playhead);
  made.follow = (time) => {
    playhead.setAttribute("visibility", "visible");
    playhead.setAttribute("transform", `translate(${x(time)} 0)`);
  };
  return made;
}
