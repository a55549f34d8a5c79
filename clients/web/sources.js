/**
 * What can be captured live.
 *
 * The browser evens the level of a microphone: soft voices are read with fewer errors, others as
 * well as without. Echo cancellation and noise suppression are off unless asked for: they are made
 * for calls, and the recogniser was trained on speech without them.
 */

import { Capture } from "./capture.js";
import { Failure, microphoneFailure } from "./failures.js";

/** Why this browser cannot record here, or null. */
export function obstacle() {
  if (!window.isSecureContext || !navigator.mediaDevices?.getUserMedia) {
    return new Failure("insecure");
  }
  if (!window.AudioContext || !window.AudioWorkletNode) return new Failure("no-worklet");
  return null;
}

/** The microphones by name; names are known only after the permission. */
export async function devices() {
  const all = (await navigator.mediaDevices?.enumerateDevices?.()) ?? [];
  return all.filter((each) => each.kind === "audioinput" && each.deviceId && each.label);
}

/** @param {{exact?: string, ideal?: string}} device its id, "" for the system's default  @param {boolean} cleanUp of echo and noise, by the browser */
export function microphone(device, cleanUp) {
  const constraints = {
    channelCount: { ideal: 1 },
    echoCancellation: cleanUp,
    noiseSuppression: cleanUp,
    autoGainControl: true,
    ...((device.exact || device.ideal) && { deviceId: device }),
  };
  return new Capture("microphone", async () => {
    const failure = obstacle();
    if (failure) throw failure;
    const stream = await navigator.mediaDevices
      .getUserMedia({ audio: constraints })
      .catch((error) => Promise.reject(microphoneFailure(error)));
    return streamInput(stream, new Failure("microphone-lost"));
  });
}

/** The sound of a tab, a window or the screen, which the browser lets one choose. */
export function sharedSound() {
  return new Capture("shared sound", async () => {
    const raw = { echoCancellation: false, noiseSuppression: false, autoGainControl: false };
    const stream = await navigator.mediaDevices
      .getDisplayMedia({ audio: { ...raw, suppressLocalAudioPlayback: false }, video: { frameRate: 1 }, systemAudio: "include" })
      .catch((error) => {
        throw error.name === "NotAllowedError" ? new Failure("not-shared", error.message) : microphoneFailure(error);
      });
    if (!stream.getAudioTracks().length) {
      for (const track of stream.getTracks()) track.stop();
      throw new Failure("shared-without-sound");
    }
    for (const track of stream.getVideoTracks()) track.enabled = false; // the picture is not wanted
    return streamInput(stream, null); // it ends when one stops sharing
  });
}

/** @param {MediaStream} stream  @param {Failure | null} lost what it means that it ends */
function streamInput(stream, lost) {
  let source = null;
  const input = {
    lost,
    onended() {},
    get ended() {
      return stream.getAudioTracks()[0].readyState === "ended";
    },
    connect(context, sink) {
      source = context.createMediaStreamSource(stream);
      source.connect(sink);
    },
    close() {
      source?.disconnect(); // one that is connected is kept, and the take with it
      source = null;
      for (const track of stream.getTracks()) {
        track.onended = null;
        track.stop();
      }
    },
  };
  stream.getAudioTracks()[0].onended = () => input.onended();
  return input;
}
