"""What a browser's MediaRecorder writes, decoded as it comes."""

import base64

import numpy as np
import pytest

from cortado.model.audio.streamed import StreamedAudio
from cortado.tests import needs
from cortado.tests.clients.chromium import Page

pytestmark = [pytest.mark.browser, needs.chromium]

RECORD = """
new Promise((done) => {
  const context = new AudioContext();
  const tone = new OscillatorNode(context, {frequency: 300});
  const sink = context.createMediaStreamDestination();
  tone.connect(sink);
  const chunks = [];
  const recorder = new MediaRecorder(sink.stream, {mimeType: "audio/webm;codecs=opus"});
  recorder.ondataavailable = (event) => chunks.push(event.data);
  recorder.onstop = async () => {
    const texts = [];
    for (const chunk of chunks) {
      const bytes = new Uint8Array(await chunk.arrayBuffer());
      texts.push(btoa(String.fromCharCode(...bytes)));
    }
    const whole = await new Blob(chunks).arrayBuffer();
    done([(await context.decodeAudioData(whole)).duration, texts]);
  };
  tone.start();
  recorder.start(100);
  recorder.onstart = () => {
    const end = context.currentTime + 1.5; // of the sound's own clock, however busy the machine is
    const look = () => (context.currentTime < end ? setTimeout(look, 50) : recorder.stop());
    look();
  };
})
"""


def test_a_browsers_recording_is_heard_chunk_by_chunk(browser: Page) -> None:
    seconds, texts = browser.evaluate(RECORD)
    chunks = [base64.b64decode(text) for text in texts]
    assert len(chunks) > 3
    audio, found, heard = StreamedAudio("audio"), [], []
    for chunk in chunks:
        found += list(audio.push(chunk))
        heard.append(sum(map(len, found)))
    found += list(audio.end())
    audio.close()
    samples = np.concatenate(found)
    assert seconds > 1
    assert len(samples) / 16_000 == pytest.approx(seconds, abs=0.05)  # as the browser hears it
    spectrum = np.abs(np.fft.rfft(samples[:16_000]))
    assert int(spectrum.argmax()) in range(295, 306)
    assert heard[len(heard) // 2] > 0.2 * len(samples)
