/** What the container of a recording states of it. */

const ANY_RATE = 48000; // what decoding goes to where the file's own rate is not known; every browser can
const UNKNOWN_LENGTH = 0x7ffff000; // writers of wav into a pipe leave this or more
const MOST_CHUNKS = 1000; // of wav that are looked at; sound comes after a few
const LARGEST_PAGE = 27 + 255 + 255 * 255; // bytes of ogg
const TOLD_WITHIN = 3000; // ms

/**
 * What a file says of itself: its sample rate (of wav and flac; 48 kHz for any other), and how many
 * bytes are missing (of wav and ogg), which no browser tells.
 * Decoding at the file's own rate leaves the resampling to our filter instead of the browser's.
 * @param {ArrayBuffer} buffer  @returns {{rate: number, missing: number}}
 */
export function stated(buffer) {
  const view = new DataView(buffer);
  const size = view.byteLength;
  const tag = (at) => at + 4 <= size && String.fromCharCode(...new Uint8Array(buffer, at, 4));
  let rate = 0;
  let missing = 0;
  if (tag(0) === "RIFF" && tag(8) === "WAVE") {
    for (let at = 12, count = 0; at + 8 <= size && count < MOST_CHUNKS; count += 1) {
      const name = tag(at);
      const length = view.getUint32(at + 4, true);
      at += 8;
      if (name === "fmt " && at + 8 <= size) rate = view.getUint32(at + 4, true);
      if (name === "data") {
        if (length < UNKNOWN_LENGTH) missing = Math.max(0, at + length - size);
        break;
      }
      at += length + (length % 2);
    }
  } else if (tag(0) === "OggS") {
    let at = size - 4; // of the last page
    while (tag(at) !== "OggS" && at > size - LARGEST_PAGE) at -= 1;
    if (tag(at) !== "OggS") return { rate: ANY_RATE, missing };
    const segments = at + 26 < size ? view.getUint8(at + 26) : 1;
    const lengths = new Uint8Array(buffer).subarray(at + 27, at + 27 + segments);
    missing = Math.max(0, lengths.reduce((end, length) => end + length, at + 27 + segments) - size);
  } else if (tag(0) === "fLaC" && size >= 22) {
    rate = view.getUint32(18) >>> 12; // 20 bits of STREAMINFO
  }
  return { rate: rate >= 8000 && rate <= 192000 ? rate : ANY_RATE, missing };
}

/** The seconds that a file states, which a player tells without decoding it; 0 where none does. */
export async function statedSeconds(file) {
  const player = new Audio();
  const address = URL.createObjectURL(file);
  let timer;
  const told = new Promise((done) => {
    player.onloadedmetadata = done;
    player.onerror = done;
    timer = setTimeout(done, TOLD_WITHIN);
  });
  player.preload = "metadata";
  player.src = address;
  await told;
  clearTimeout(timer);
  const { duration } = player;
  player.removeAttribute("src"); // or it keeps the file open
  player.load();
  URL.revokeObjectURL(address);
  return Number.isFinite(duration) ? duration : 0;
}
