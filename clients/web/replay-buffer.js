import { firstThat } from "./bisect.js";

/**
 * The last sound of a stream, so that it can be sent again over another connection.
 *
 * Positions are samples of the whole stream. What was let go can no longer be read.
 */
export class ReplayBuffer {
  /** @param {number} sampleBytes bytes of one sample */
  constructor(sampleBytes) {
    this.sampleBytes = sampleBytes;
    this.start = 0; // the first sample that is still here
    this.end = 0; // the sample that comes next
    /** @type {{at: number, bytes: Uint8Array}[]} in order */
    this.pieces = [];
  }

  /** @param {Uint8Array} bytes of whole samples, which are copied */
  append(bytes) {
    if (bytes.length % this.sampleBytes) {
      throw new RangeError(`expected whole samples of ${this.sampleBytes} bytes, got ${bytes.length} bytes`);
    }
    if (!bytes.length) return;
    this.pieces.push({ at: this.end, bytes: bytes.slice() });
    this.end += bytes.length / this.sampleBytes;
  }

  /** At most so many samples of the sound from one on; null where none has come yet. */
  read(sample, most) {
    const piece = this.pieces[this.#index(sample)];
    if (!piece) return null;
    const first = (sample - piece.at) * this.sampleBytes;
    return piece.bytes.subarray(first, first + most * this.sampleBytes);
  }

  /** Let go of what lies before a sample, piece by piece. */
  release(sample) {
    const count = this.#index(Math.min(sample, this.end));
    if (count) this.pieces.splice(0, count);
    this.start = this.pieces.length ? this.pieces[0].at : this.end;
  }

  /** The piece that holds a sample; the number of pieces if none does. */
  #index(sample) {
    if (sample < this.start) {
      throw new RangeError(`expected a sample from ${this.start} on, got ${sample}`);
    }
    const endsAfter = ({ at, bytes }) => at + bytes.length / this.sampleBytes > sample;
    return firstThat(this.pieces, endsAfter);
  }
}
