/** Captions: the whole screen, large type, the last lines only. */

export function captionMode(enter, leave, onchange) {
  const set = (on) => {
    document.body.classList.toggle("captioned", on);
    leave.hidden = !on;
    onchange();
  };
  const quit = () => {
    if (!document.body.classList.contains("captioned")) return;
    set(false);
    if (document.fullscreenElement) document.exitFullscreen();
    enter.focus();
  };
  enter.addEventListener("click", async () => {
    set(true);
    leave.focus();
    // Where the whole screen is not to be had, the whole window does.
    await document.documentElement.requestFullscreen?.().catch(() => {});
    onchange();
  });
  leave.addEventListener("click", quit);
  document.addEventListener("fullscreenchange", () => document.fullscreenElement || quit());
  document.addEventListener("keydown", (event) => event.key === "Escape" && quit());
}
