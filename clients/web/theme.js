/* Sets the colours and the type size before the first paint; run in the head, so no module. */
(() => {
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const apply = () => {
    let chosen = {};
    try {
      chosen = JSON.parse(localStorage.getItem("cortado")) ?? {};
    } catch {
      // nothing was chosen, or the browser keeps nothing: the defaults hold
    }
    const { theme, size } = chosen;
    const scheme = theme === "light" || theme === "dark" ? theme : dark.matches ? "dark" : "light";
    document.documentElement.dataset.theme = scheme;
    document.documentElement.dataset.size = size ?? "normal";
    document.dispatchEvent(new Event("themechange"));
  };
  dark.addEventListener("change", apply);
  document.addEventListener("settingschange", apply);
  apply();
})();
