/** What the server says to plain HTTP, which decides between very different pieces of advice. */

const ANSWER_WITHIN = 5000; // ms
const UNAUTHORIZED = 401;

/** The headers of a request that has a key, or none. @param {string} key */
export const keyHeaders = (key) => (key ? { Authorization: `Bearer ${key}` } : {});

/** The status of the answer at an address; 0 where nothing answers. */
export async function status(address, headers = {}) {
  try {
    const signal = AbortSignal.timeout(ANSWER_WITHIN);
    return (await fetch(address, { cache: "no-store", headers, signal })).status;
  } catch {
    return 0;
  }
}

/**
 * Why a stream at an address was refused, which a WebSocket is not told: "unreachable",
 * "unauthorized" or "refused". What the server says about itself lies beside the stream.
 */
export async function refusal(address, key = "") {
  const beside = new URL("info", address);
  beside.protocol = { "wss:": "https:", "ws:": "http:" }[beside.protocol];
  const found = await status(beside, keyHeaders(key));
  return { 0: "unreachable", [UNAUTHORIZED]: "unauthorized" }[found] ?? "refused";
}
