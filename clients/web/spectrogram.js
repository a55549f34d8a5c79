/**
 * The log-mel picture of a take as tiles of five seconds. A few are kept; one that was scrolled
 * back to is made anew from the take's sound, so that hours of speech take no more room.
 */

import { BANDS, HOP, MelStream, OVERLAP, frames } from "./mel.js";
import { SAMPLE_RATE, decode } from "./pcm.js";

const TILE_FRAMES = 500;
const FRAMES_PER_SECOND = SAMPLE_RATE / HOP;
const TILE_SECONDS = TILE_FRAMES / FRAMES_PER_SECOND;
const TILE_SAMPLES = TILE_FRAMES * HOP;
const TILES = 12; // kept: a minute
const REFILL = 250; // ms between two looks for more sound of a file that is still being read

class Tile {
  /** @param {number} read samples of the take that it holds; of live sound it gets all */
  constructor(read = 0) {
    this.read = read;
    this.filling = false;
    this.levels = new Uint8Array(TILE_FRAMES * BANDS);
    this.filled = 0; // frames that are known
    this.painted = 0; // frames that are on the canvas
    this.canvas = Object.assign(document.createElement("canvas"), { width: TILE_FRAMES, height: BANDS });
    this.pen = this.canvas.getContext("2d", { willReadFrequently: true }); // small, and changed often
  }

  paint(palette) {
    const count = this.filled - this.painted;
    if (!count) return;
    const image = this.pen.createImageData(count, BANDS);
    const pixels = new Uint32Array(image.data.buffer);
    for (let frame = 0; frame < count; frame += 1) {
      const at = (this.painted + frame) * BANDS;
      for (let band = 0; band < BANDS; band += 1) {
        pixels[(BANDS - 1 - band) * count + frame] = palette[this.levels[at + band]];
      }
    }
    this.pen.putImageData(image, this.painted, 0);
    this.painted = this.filled;
  }
}

export class Spectrogram {
  #tiles = new Map(); // by number, the one used last at the end
  #mel = new MelStream();

  /** @param {import("./sound.js").Sound} sound  @param {() => void} onchange a tile has come */
  constructor(sound, onchange) {
    this.sound = sound;
    this.onchange = onchange;
  }

  /** Take the sound's latest 16-bit samples; the others are made when they are looked at. */
  push(bytes) {
    const levels = this.#mel.push(decode(bytes));
    const first = Math.floor(this.sound.samples / HOP) - levels.length / BANDS;
    for (let at = 0; at < levels.length; at += BANDS) {
      const number = Math.floor((first + at / BANDS) / TILE_FRAMES);
      const place = (first + at / BANDS) % TILE_FRAMES;
      const tile = place ? this.#tiles.get(number) : this.#add(number, new Tile(Infinity));
      if (tile?.filled === place) {
        tile.levels.set(levels.subarray(at, at + BANDS), place * BANDS);
        tile.filled = place + 1;
      } else if (tile?.read === Infinity) {
        tile.read = 0; // some were not pushed, as nobody looked: it is made from the sound
      }
    }
  }

  /** Draw what lies within [from, to) seconds, `scale` px a second, from the px `top` on. */
  draw(pen, from, to, scale, top, height, palette) {
    const last = Math.min(to, this.sound.seconds);
    for (let number = Math.max(0, Math.floor(from / TILE_SECONDS)); number * TILE_SECONDS < last; number += 1) {
      const tile = this.#add(number, this.#tiles.get(number) ?? new Tile());
      const until = Math.min((number + 1) * TILE_SAMPLES, this.sound.samples);
      if (tile.read < until && !tile.filling) this.#fill(tile, number, until).catch(() => {});
      tile.paint(palette);
      if (!tile.filled) continue;
      const x = (number * TILE_SECONDS - from) * scale;
      const wide = (tile.filled / FRAMES_PER_SECOND) * scale;
      pen.drawImage(tile.canvas, 0, 0, tile.filled, BANDS, x, top, wide, height);
    }
  }

  /** Paint everything again, for the colours have changed. */
  repaint() {
    for (const tile of this.#tiles.values()) tile.painted = 0;
  }

  #add(number, tile) {
    this.#tiles.delete(number);
    this.#tiles.set(number, tile);
    if (this.#tiles.size > TILES) this.#tiles.delete(this.#tiles.keys().next().value);
    return tile;
  }

  /** Make a tile of the sound up to a sample, and look for more a little later. */
  async #fill(tile, number, until) {
    tile.filling = true;
    const first = number * TILE_SAMPLES;
    const before = Math.min(first, OVERLAP);
    const samples = await this.sound.read(first - before, until);
    const all = new Float32Array(OVERLAP - before + samples.length);
    all.set(samples, OVERLAP - before);
    const levels = frames(all);
    tile.levels.set(levels);
    tile.filled = levels.length / BANDS;
    tile.painted = 0;
    tile.read = until;
    this.onchange();
    setTimeout(() => {
      tile.filling = false;
      if (until < first + TILE_SAMPLES) this.onchange();
    }, REFILL);
  }
}
