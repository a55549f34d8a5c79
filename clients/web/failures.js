/** What can go wrong, each with a code, and the words a person reads. */

export class Failure extends Error {
  /** @param {string} code  @param {string} detail what the browser or the server said itself */
  constructor(code, detail = "") {
    super(detail || code);
    this.code = code;
    this.detail = detail;
  }
}

const WORDS = {
  insecure: [
    "The microphone is locked on this address.",
    "Browsers give the microphone only to secure pages: open this one via https or localhost. "
      + "Opening a recording works here too.",
  ],
  "no-permission": [
    "The microphone was not allowed.",
    "Allow it for this page, by the icon beside the address, and try again.",
  ],
  "no-microphone": [
    "No microphone was found.",
    "Connect one, or choose another below, under Settings, and try again.",
  ],
  "microphone-busy": [
    "The microphone could not be opened.",
    "Close other programs that use it, allow it to this browser in the system, and try again.",
  ],
  "microphone-lost": [
    "The microphone went away.",
    "What was heard until then stays here. Connect it again, and start anew.",
  ],
  "no-worklet": [
    "This browser is too old for live audio.",
    "AudioWorklet is missing. A current Firefox, Chromium, Edge or Safari has it.",
  ],
  "audio-blocked": [
    "The browser starts no sound.",
    "Look whether the computer has a sound output, allow this page to play and record sound, and try again.",
  ],
  "not-shared": [
    "Nothing was shared.",
    "Try again, and choose a tab or the screen in the browser's window.",
  ],
  "shared-without-sound": [
    "What was shared has no sound.",
    "Share it again, and tick the box for its sound. Chromium and Edge have one, Firefox has none.",
  ],
  unreachable: [
    "The server cannot be reached.",
    "It may be stopped, or the network between is down. Try again when it is back.",
  ],
  refused: [
    "The server is there, but refused the stream.",
    "It may be full: try again later. Or its allowed_origins lack this page's address.",
  ],
  dropped: [
    "The connection was lost.",
    "What was heard until then stays here. Start again to go on.",
  ],
  "no-answer": [
    "The server does not answer.",
    "It took the connection but sent nothing. It may be overloaded; try again.",
  ],
  "not-understood": [
    "The server said something this page does not understand.",
    "Page and server may be of different versions: reload the page.",
  ],
  "too-slow": [
    "The connection is slower than your voice.",
    "Ten minutes of sound were waiting to be sent. Start again on a faster network.",
  ],
  "not-audio": [
    "A file could not be read as sound.",
    "The browser reads wav, mp3, m4a, flac, ogg and webm, and has no room for much more than three hours. "
      + "Other files, and any length, go by: cortado transcribe FILE.",
  ],
  "cut-short": [
    "A recording is cut short.",
    "Its text ends where its sound does. Copy or download the whole file again.",
  ],
  "too-large": [
    "A file is too large for the page.",
    "Up to 200 MB and three hours go through the browser; others go by: cortado transcribe FILE.",
  ],
  // From here on: the codes of the server's own error messages.
  invalid_message: [
    "The names to expect cannot be used.",
    "Change them under Settings: up to 100 names, each with letters and of at most 100 characters, "
      + "511 letters in all.",
  ],
  too_many_streams: ["The server is full.", "Others are speaking. Try again a little later."],
  shutting_down: [
    "The server is shutting down.",
    "What was heard until then stays here. Try again when it is back.",
  ],
  idle_timeout: [
    "The server heard nothing for too long.",
    "What was heard until then stays here. Look whether the microphone is on, and start again.",
  ],
  taken_over: ["The take goes on elsewhere.", "Another page has it. Start again for a new one."],
  start_timeout: ["The server waited too long for the start.", "Try again."],
  stream_too_long: [
    "The stream reached the longest that the server allows.",
    "What was heard stays here. Start again to go on.",
  ],
  slow_client: [
    "This page read the text too slowly.",
    "The computer or the connection was too busy. What was heard stays here; start again.",
  ],
  internal_error: [
    "Something broke inside the server.",
    "What was heard until then stays here. Start again; the server's log says more.",
  ],
};

/** How a close of the connection reads where the server sent no error message before it. */
const CLOSES = {
  1001: "shutting_down",
  1008: "refused",
  1009: "message_too_big",
  1011: "internal_error",
  1012: "shutting_down",
  1013: "too_many_streams",
};

/** The failure that a close stands for, once the stream was open. */
export function closeFailure(code, reason = "") {
  return new Failure(CLOSES[code] ?? "dropped", reason || `close code ${code}`);
}

/** The failure that an error of getUserMedia stands for. @param {Error} error */
export function microphoneFailure(error) {
  const codes = {
    NotAllowedError: "no-permission",
    SecurityError: "no-permission",
    NotFoundError: "no-microphone",
    OverconstrainedError: "no-microphone",
  };
  return new Failure(codes[error.name] ?? "microphone-busy", error.message);
}

/**
 * The words of a failure: what happened, what helps, and the code with the original message.
 * A code of the server that has no words here is told by the server's own sentence.
 */
export function words(failure) {
  const { code = "fault", detail = failure.message } = failure;
  const [title, advice] = Object.hasOwn(WORDS, code)
    ? WORDS[code]
    : ["The stream was ended by an error.", "What was heard stays here. Start again to go on."];
  return { title, advice, origin: detail && detail !== code ? `${code}: ${detail}` : code };
}
