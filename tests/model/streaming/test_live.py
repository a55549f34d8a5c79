"""A stream that is suspended and resumed goes on as if nothing had been."""

import subprocess
import sys
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cortado.model.arrays import Samples
from cortado.model.audio.decode import decode
from cortado.model.backends.choice import load_recognizer
from cortado.model.streaming.endpoint import Rule
from cortado.model.streaming.live import LiveStream
from cortado.model.streaming.snapshot import SnapshotError
from cortado.model.streaming.update import Update
from cortado.tests import needs
from cortado.tests.model.untrained import noise, online

ROOT = Path(__file__).parents[3]
RULES = (Rule(silence=0.12), Rule(length=0.4))  # short, as is what an untrained model hears


def speech(seconds: float = 1.5) -> Samples:
    return noise(3, seconds)


@cache
def whole() -> list[Update]:
    stream = LiveStream(online(), RULES)
    return [*stream.push(speech()), *stream.end()]


def moved(stream: LiveStream) -> LiveStream:
    return LiveStream.resume(online(), stream.suspend())


def test_an_untrained_model_has_endpoints_to_lose() -> None:
    heard = whole()
    assert sum(len(one.characters) for one in heard) > 10
    assert sum(one.endpoint is not None for one in heard) > 1


@given(cuts=st.lists(st.integers(0, len(speech())), max_size=6))
@settings(max_examples=8)
def test_a_stream_may_be_suspended_after_any_sample(cuts: list[int]) -> None:
    stream, heard = LiveStream(online(), RULES), list[Update]()
    for piece in np.split(speech(), sorted(cuts)):
        heard += stream.push(piece)
        stream = moved(stream)
    assert heard + list(stream.end()) == whole()
    assert stream.position == 1.5


def test_a_stream_may_be_suspended_while_it_is_flushed() -> None:
    stream = LiveStream(online(), RULES)
    heard = [*stream.push(speech())]
    ending = stream.end()
    heard.append(next(ending))
    assert heard + list(moved(stream).end()) == whole()


@pytest.mark.parametrize("place", [0, 20, 24, 60, 300, -1])
def test_a_damaged_stream_is_refused(place: int) -> None:
    data = bytearray(LiveStream(online()).suspend())
    data[place] ^= 1
    with pytest.raises(SnapshotError, match=r"^expected "):
        LiveStream.resume(online(), bytes(data))


@pytest.mark.parametrize("data", [b"", b"nonsense", bytes(1000)])
def test_what_is_no_stream_is_refused(data: bytes) -> None:
    with pytest.raises(SnapshotError, match="expected the snapshot of a stream"):
        LiveStream.resume(online(), data)


@pytest.mark.parametrize("version", [1, 2, 3, 4])
def test_a_stream_of_another_version_is_refused(version: int) -> None:
    data = LiveStream(online()).suspend()
    other = data[:16] + version.to_bytes(2, "little") + data[18:]
    with pytest.raises(SnapshotError, match=f"snapshot of version 5, got version {version}"):
        LiveStream.resume(online(), other)


def test_a_stream_that_is_cut_short_is_refused() -> None:
    data = LiveStream(online()).suspend()
    with pytest.raises(SnapshotError, match="damaged"):
        LiveStream.resume(online(), data[:-1])


def test_a_suspended_stream_is_its_state_and_what_waits() -> None:
    stream = LiveStream(online())
    [*stream.push(np.zeros(1000, np.float32))]
    empty = len(LiveStream(online()).suspend())
    assert len(stream.suspend()) - empty < 4 * 360 + 20


RESUME = """
import sys
from pathlib import Path
import numpy as np
from cortado.model.backends.choice import load_recognizer
from cortado.model.streaming.live import LiveStream
stream = LiveStream.resume(load_recognizer(), Path(sys.argv[1]).read_bytes())
rest = np.fromfile(sys.argv[2], np.float32)
print([*stream.push(rest), *stream.end()])
"""


def test_a_stream_of_the_shipped_model_goes_on_in_another_process(tmp_path: Path) -> None:
    recordings = sorted(needs.RECORDINGS.glob("audio/*/*.opus"))
    samples = decode(recordings[0])[:40_000] if recordings else noise(5, 1.2)
    model = load_recognizer()
    stream = LiveStream(model)
    [*stream.push(samples[:10_000])]
    (tmp_path / "stream").write_bytes(stream.suspend())
    samples[10_000:].tofile(tmp_path / "rest")
    arguments = [sys.executable, "-c", RESUME, str(tmp_path / "stream"), str(tmp_path / "rest")]
    done = subprocess.run(arguments, cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == str([*stream.push(samples[10_000:]), *stream.end()])
    with pytest.raises(SnapshotError, match="expected a stream of the backend"):
        LiveStream.resume(online(), stream.suspend())
