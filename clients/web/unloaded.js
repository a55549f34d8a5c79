/** Says that the page's modules did not load or run; no module could. */

addEventListener("error", ({ target }) => {
  const begun = !document.getElementById("toggle")?.disabled;
  if (begun || (target !== window && target.type !== "module")) return;
  document.getElementById("unloaded").hidden = false;
}, true); // an element's error does not bubble
