"""What a browser's MediaRecorder writes, decoded as it comes."""

import base64
import json

import numpy as np
import pytest

from cortado.model.audio.streamed import StreamedAudio
from cortado.tests.clients import chromium
from cortado.tests.clients.chromium import Page

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(chromium.executable() is None, reason="needs Chromium"),
]

SECONDS = 1.5
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
    done(JSON.stringify(texts));
  };
  tone.start();
  recorder.start(100);
  setTimeout(() => recorder.stop(), 1500);
})
"""


def test_a_browsers_recording_is_heard_chunk_by_chunk(browser: Page) -> None:
    chunks = [base64.b64decode(text) for text in json.loads(str(browser.evaluate(RECORD)))]
    assert len(chunks) > 3
    audio, found, heard = StreamedAudio("audio"), [], []
    for chunk in chunks:
        found += list(audio.push(chunk))
        heard.append(sum(map(len, found)))
    found += list(audio.end())
    audio.close()
    samples = np.concatenate(found)
    assert len(samples) / 16_000 == pytest.approx(SECONDS, abs=0.5)  # a busy machine is late
    spectrum = np.abs(np.fft.rfft(samples[:16_000]))
    assert int(spectrum.argmax()) in range(295, 306)
    assert heard[len(heard) // 2] > 0.2 * len(samples)
