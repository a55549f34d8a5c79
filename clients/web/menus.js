/** Menus that close as people expect: by Escape, by a press elsewhere, and after a choice. */

/** @param {HTMLDetailsElement[]} all */
export function menus(all) {
  const close = (menu, focus) => {
    if (!menu.open) return;
    menu.open = false;
    if (focus) menu.querySelector("summary").focus();
  };
  for (const menu of all) {
    menu.addEventListener("keydown", (event) => event.key === "Escape" && close(menu, true));
    menu.addEventListener("click", (event) => {
      if (event.target.closest("[aria-disabled=true]")) event.preventDefault(); // of what has no `disabled`
      if (event.target.closest("button")) close(menu, true);
    });
  }
  document.addEventListener("pointerdown", ({ target }) => {
    for (const menu of all) if (!menu.contains(target)) close(menu, false);
  });
}
