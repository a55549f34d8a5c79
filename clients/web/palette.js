/** The picture's colours, taken from the style sheet so that both schemes have their own. */

/** The red, green and blue of a colour written as #rrggbb. */
function channels(colour) {
  return [1, 3, 5].map((at) => parseInt(colour.slice(at, at + 2), 16));
}

/** 256 colours as the words of an image's pixels, from the first of some stops to the last. */
export function ramp(stops) {
  const found = new Uint32Array(256);
  const bytes = new Uint8ClampedArray(found.buffer);
  const points = stops.map(channels);
  for (let level = 0; level < 256; level += 1) {
    const place = (level / 255) * (points.length - 1);
    const first = Math.min(points.length - 2, Math.floor(place));
    for (let i = 0; i < 3; i += 1) {
      const [low, high] = [points[first][i], points[first + 1][i]];
      bytes[level * 4 + i] = low + (high - low) * (place - first);
    }
    bytes[level * 4 + 3] = 255;
  }
  return found;
}

/** @param {HTMLElement} element whose colours they are */
export function palette(element) {
  const style = getComputedStyle(element);
  const colour = (name) => style.getPropertyValue(`--${name}`).trim();
  return {
    accent: colour("accent"),
    chunk: colour("chunk"),
    ink: colour("ink"),
    soft: colour("soft"),
    sans: style.fontFamily,
    mono: "ui-monospace, SFMono-Regular, Menlo, Consolas, 'DejaVu Sans Mono', monospace",
    ramp: ramp(["paper", "sound", "loud"].map(colour)),
  };
}
