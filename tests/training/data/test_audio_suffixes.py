"""Every kind of file that a folder is searched for can be decoded."""

from pathlib import Path

import pytest

from cortado.model.audio.decode import decode
from cortado.tests.model.audio.recorded import record
from cortado.training.data.corpora.source import AUDIO_SUFFIXES

OTHERS = {"weba": "webm", "m4v": "mp4", "wmv": "asf", "mts": "mpegts", "m2ts": "mpegts"}
CODECS = {
    "aac": "mkv mka mov m4v m4b 3gp ts mts m2ts",
    "libopus": "weba",
    "wmav2": "wma wmv asf",
    "libmp3lame": "avi",
    "mp2": "mpg mpeg",
    "ac3": "ac3",
    "wavpack": "wv",
    "tta": "tta",
    "libopencore_amrnb": "amr",
}


@pytest.mark.parametrize(
    ("codec", "suffix"), [(codec, one) for codec, many in CODECS.items() for one in many.split()]
)
def test_a_folder_s_films_and_rarer_formats_are_heard(
    tmp_path: Path, codec: str, suffix: str
) -> None:
    rate = {"libopencore_amrnb": 8_000, "wmav2": 44_100}.get(codec, 48_000)
    path = record(tmp_path / f"talk.{suffix}", codec, rate, 3.0, OTHERS.get(suffix))
    assert path.suffix in AUDIO_SUFFIXES
    assert len(decode(path)) / 16_000 == pytest.approx(3, abs=0.1)


def test_a_recording_of_speex_is_searched_for() -> None:
    assert ".spx" in AUDIO_SUFFIXES  # in ogg
