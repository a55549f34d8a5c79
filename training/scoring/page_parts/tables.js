// Elements and tables that a click on a column's name sorts.

const percent = (rate) => (rate == null ? "–" : (100 * rate).toFixed(1));
// Of a single utterance there is none.
const interval = (bounds) => (bounds ? `${percent(bounds[0])} to ${percent(bounds[1])}` : "–");
const seen = (token) => (token === " " ? "␣" : token);

function element(name, properties = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(properties)) {
    if (key in made) made[key] = value;
    else made.setAttribute(key, value);
  }
  made.append(...children.filter((child) => child != null));
  return made;
}

const ROWS_AT_ONCE = 60; // the next ones come as the table is scrolled

// A column: name, value(row) to sort by, show(row) for a cell if that is not the value itself.
function table(columns, rows, { sorted = null, tall = false } = {}) {
  const body = element("tbody");
  const heads = columns.map((column, k) =>
    element(
      "th",
      { scope: "col", className: column.text ? "text" : "" },
      element("button", { type: "button", onclick: () => sort(k) }, column.name),
    ),
  );
  const cell = (column, row) => {
    const shown = column.show ? column.show(row) : column.value(row);
    const made = element("td", { className: column.kind ?? (column.text ? "text" : "") });
    if (column.share) {
      made.classList.add("bar");
      made.style.setProperty("--share", Math.min(1, column.share(row)).toFixed(3));
    }
    made.append(shown ?? "–");
    return made;
  };
  const lines = new Map();
  const line = (row) => {
    if (!lines.has(row)) lines.set(row, element("tr", {}, ...columns.map((one) => cell(one, row))));
    return lines.get(row);
  };
  let wanted = "";
  let kept = rows;
  const more = () => {
    const shown = body.childElementCount;
    body.append(...kept.slice(shown, shown + ROWS_AT_ONCE).map(line));
  };
  const fill = () => {
    kept = wanted ? rows.filter((row) => row.search.includes(wanted)) : rows;
    body.replaceChildren();
    more();
  };
  const sort = (k, order = null) => {
    const { value } = columns[k];
    const first = typeof value(rows[0] ?? {}) === "number" ? "descending" : "ascending";
    const other = first === "descending" ? "ascending" : "descending";
    const direction = order ?? (heads[k].getAttribute("aria-sort") === first ? other : first);
    const sign = direction === "ascending" ? 1 : -1;
    rows.sort((a, b) => {
      const [x, y] = [value(a), value(b)];
      if (x == null || y == null) return (x == null) - (y == null);
      return sign * (typeof x === "number" ? x - y : String(x).localeCompare(String(y)));
    });
    for (const head of heads) head.removeAttribute("aria-sort");
    heads[k].setAttribute("aria-sort", direction);
    fill();
  };
  if (sorted === null) fill();
  else sort(sorted, "descending");
  const made = element(
    "div",
    { className: `frame${tall ? " tall" : ""}`, tabIndex: 0 },
    element("table", {}, element("thead", {}, element("tr", {}, ...heads)), body),
  );
  made.addEventListener("scroll", () => {
    if (made.scrollTop + 2 * made.clientHeight > made.scrollHeight) more();
  });
  made.filter = (text) => {
    wanted = text.trim().toLowerCase();
    fill();
  };
  return made;
}

// The reference above the hypothesis, token above token.
function diff(edits, unit) {
  const made = element("div", { className: `diff ${unit}` });
  for (const [said, heard] of edits) {
    const kind = said == null ? "ins" : heard == null ? "del" : said === heard ? "ok" : "sub";
    made.append(
      element(
        "span",
        { className: kind },
        element("b", {}, said == null ? " " : seen(said)),
        element("i", {}, kind === "ok" ? " " : heard == null ? " " : seen(heard)),
      ),
    );
  }
  return made;
}
