/** Whether the server is there at all, which decides between two very different pieces of advice. */

const ANSWER_WITHIN = 5000; // ms

/** Whether anything answers HTTP at an address, which may also be a WebSocket's. */
export async function answers(address) {
  const page = new URL(address);
  page.protocol = { "wss:": "https:", "ws:": "http:" }[page.protocol] ?? page.protocol;
  try {
    await fetch(page, { cache: "no-store", signal: AbortSignal.timeout(ANSWER_WITHIN) });
    return true;
  } catch {
    return false;
  }
}
