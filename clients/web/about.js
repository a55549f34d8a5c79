/** What the page says about the model, all of it from the card that /v1/info gives. */

const percent = (...shares) => `${shares.map((share) => (100 * share).toFixed(1)).join(" to ")} %`;

/** The scores of a model's card. @param {any} info what /v1/info answers */
function scores(info) {
  const found = info?.card?.card?.scores;
  return Array.isArray(found) ? found.filter((each) => Number.isFinite(each?.wer)) : [];
}

/** One honest sentence about how often the model errs. */
export function sentence(info) {
  const wrong = scores(info).map(({ wer }) => Math.round(100 * wer));
  if (!wrong.length) return "How often this model errs was not measured.";
  const [least, most] = [Math.min(...wrong), Math.max(...wrong)];
  const range = least === most ? `${least}` : `${least} to ${most}`;
  return `Expect errors: in tests, ${range} of 100 words came out wrong.`;
}

/** Fill the table of scores and the list of facts. @param {Document} page */
export function fill(page, info) {
  const rows = scores(info).map((score) => {
    const row = page.createElement("tr");
    const hours = Number.isFinite(score.hours) ? `${score.hours.toFixed(1)} h` : "";
    const interval = score.wer_ci95 ? percent(...score.wer_ci95) : "";
    for (const text of [score.name, hours, percent(score.wer), interval]) {
      const cell = page.createElement(row.childElementCount ? "td" : "th");
      cell.textContent = text ?? "";
      if (!row.childElementCount) cell.scope = "row";
      row.append(cell);
    }
    return row;
  });
  page.getElementById("scores").replaceChildren(...rows);
  page.getElementById("score-table").hidden = !rows.length;
  page.getElementById("facts").replaceChildren(...facts(info).flatMap(([name, value]) => [
    Object.assign(page.createElement("dt"), { textContent: name }),
    Object.assign(page.createElement("dd"), { textContent: value }),
  ]));
}

function facts(info) {
  const { language, data, licences } = info?.card?.card ?? {};
  const parameters = info?.card?.parameters;
  return [
    ["Model", info?.model],
    ["Language", language],
    ["Parameters", Number.isFinite(parameters) ? parameters.toLocaleString("en") : ""],
    ["Learned from", data],
    ["Licences", licences],
  ].filter(([, value]) => value);
}
