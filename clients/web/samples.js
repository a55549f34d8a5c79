/** Samples as a program hands them over: bytes of any kind, or numbers of the stream's own encoding. */

const NUMBERS = { pcm_s16le: Int16Array, pcm_f32le: Float32Array };

/** Bytes of one sample in an encoding; undefined for one that is not known. */
export const sampleBytes = (encoding) =>
  (Object.hasOwn(NUMBERS, encoding) ? NUMBERS[encoding].BYTES_PER_ELEMENT : undefined);

/**
 * The bytes of samples, which are not copied. Numbers of another kind would be heard as noise.
 * @param {ArrayBuffer | ArrayBufferView} data
 * @param {keyof typeof NUMBERS} encoding
 */
export function bytesOf(data, encoding) {
  const kind = Object.prototype.toString.call(data).slice(8, -1); // also of another window's
  const numbers = NUMBERS[encoding].name;
  const bytes = ["ArrayBuffer", "SharedArrayBuffer", "DataView", "Uint8Array", "Int8Array", "Uint8ClampedArray"];
  if (![...bytes, numbers].includes(kind)) {
    throw new TypeError(`expected bytes or ${numbers} for ${encoding}, got ${kind}`);
  }
  return ArrayBuffer.isView(data)
    ? new Uint8Array(data.buffer, data.byteOffset, data.byteLength)
    : new Uint8Array(data);
}
