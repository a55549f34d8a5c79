/** A stream of speech to a Cortado server, for browsers and for Node; stream.js describes it. */

export interface Character {
  text: string;
  time: number; // seconds of the whole stream
  confidence: number; // probability that its word is right, by what was known of it
}

export interface Text {
  text: string;
  log_probability: number; // nats
}

export interface Utterance {
  start: number; // seconds of the whole stream
  end: number;
  texts?: Text[]; // what was written, then others by probability, where `alternatives` asks for them
}

export type State =
  "new" | "connecting" | "open" | "lost" | "paused" | "done" | "failed" | "closed";

export interface Failure extends Error {
  code: string;
}

export interface Handlers {
  characters?(characters: Character[]): void; // as they are decided; never revised
  endpoint?(utterance: Utterance): void; // after the characters of an utterance
  state?(state: State, reason?: Failure): void; // "lost": it is connecting again
  restarted?(seconds: number): void; // the server began anew from there
}

export interface Options {
  sampleRate?: number; // Hz, 16000 if not given
  encoding?: "pcm_s16le" | "pcm_f32le";
  keep?: boolean; // whether the server keeps the stream if the connection is lost; true if not given
  silenceMs?: number; // milliseconds of silence that end an utterance, 300 to 5000
  phrases?: string[]; // that are likely to be said, such as names
  alternatives?: number; // the most texts that the end of an utterance has, up to 10
  // Of the server: an API key or a short-lived secret, or what gives one for each connection.
  key?: string | (() => string | Promise<string>);
  WebSocket?: unknown; // where there is no global one, as in Node before 22
}

export interface Ready {
  session: string;
  model: string;
  lookahead_ms: number;
  step_ms: number;
}

export class Stream {
  constructor(address: string | URL, handlers?: Handlers, options?: Options);
  readonly state: State;
  readonly waiting: number; // seconds of sound that have not left yet
  readonly sent: number; // seconds
  readonly decided: number; // seconds
  readonly failed: Promise<never>;
  open(): Promise<Ready>;
  send(data: ArrayBuffer | ArrayBufferView): void;
  drained(): Promise<void>;
  pause(): Promise<void>;
  resume(): void;
  end(): Promise<{ duration: number; texts?: Text[] }>;
  retry(): void;
  close(): void;
}
