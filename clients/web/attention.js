/**
 * What the attention of a model looks at when it stops, as far as the model's card tells.
 * The weights within it are not sent, so none are drawn.
 */

/**
 * @param {any} info what /v1/info answers
 * @returns {{describe: string, from: (stop: number, before: number) => number | null}} the second
 *   at which the sound begins that a stop looked at, given the stop before it; null if not known
 */
export function attention(info) {
  const step = info.step_ms / 1000;
  const { kind, attention: found = {} } = info.card?.config?.decoder ?? {};
  const fixed = (frames) => ({
    describe: `Bars are the ${Math.round(frames * info.step_ms)} ms weighed for each.`,
    from: (stop) => Math.max(0, stop - frames * step),
  });
  if (kind === "ctc") return UNKNOWN;
  if (found.kind === "mocha") return fixed(found.chunk);
  if (found.kind === "monotonic") return fixed(1);
  if (found.kind === "matcha") {
    return {
      describe: "Bars are what was weighed for each, all since the letter before.",
      from: (stop, before) => Math.max(before, stop - found.span * step),
    };
  }
  return UNKNOWN;
}

export const UNKNOWN = { describe: "", from: () => null };
