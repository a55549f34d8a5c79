"""Files with damage, and with what is no sound between or behind their frames."""

from pathlib import Path

import numpy as np
import pytest

from cortado.model.arrays import Samples
from cortado.model.audio.decode import decode, stream
from cortado.model.audio.error import AudioError
from cortado.tests.model.audio.recorded import record

RATE = 16_000
SECONDS = 3.0
ID3 = b"ID3\x04\0\0\0\0\x10\0" + bytes(2048)
LYRICS = b"LYRICSBEGININD0000200LYR03000" + b"la la lala " * 270 + b"003030LYRICS200"
TEXT = b"some text behind the last frame\n" * 50


def mp3(path: Path, rate: int = RATE) -> bytes:
    return record(path / "part.mp3", "libmp3lame", rate, SECONDS).read_bytes()


def ape(size: int) -> bytes:
    """An APEv2 tag with a picture."""
    picture = np.random.default_rng(1).bytes(size)
    item = size.to_bytes(4, "little") + bytes(4) + b"Cover Art (Front)\0" + picture
    facts = b"APETAGEX" + b"".join(n.to_bytes(4, "little") for n in (2000, len(item) + 32, 1))
    return facts + b"\0\0\0\xa0" + bytes(8) + item + facts + b"\0\0\0\x80" + bytes(8)


def heard(path: Path) -> tuple[Samples, str]:
    """Return what could be heard, and the error at the end."""
    pieces, error = [np.zeros(0, np.float32)], ""
    try:
        pieces += stream(path)
    except AudioError as caught:
        error = str(caught).partition("got ")[2]
    return np.concatenate(pieces), error


@pytest.mark.parametrize("between", [b"", ID3, ape(200_000)], ids=["nothing", "ID3", "APE"])
@pytest.mark.parametrize("rate", [16_000, 44_100])
def test_two_mp3s_in_one_file_are_both_heard(tmp_path: Path, between: bytes, rate: int) -> None:
    path = tmp_path / "joined.mp3"
    path.write_bytes(mp3(tmp_path) + between + mp3(tmp_path, rate))
    samples, error = heard(path)
    assert error == ""
    assert len(samples) / RATE == pytest.approx(2 * SECONDS, abs=0.2)
    assert np.abs(samples[-RATE : -RATE // 4]).mean() > 0.1


@pytest.mark.parametrize(
    "behind",
    [bytes(3000), LYRICS, LYRICS + b"TAG" + bytes(125), TEXT, ape(200_000)],
    ids=["zeros", "Lyrics3", "Lyrics3 and ID3v1", "text", "APE"],
)
def test_what_follows_the_last_frame_is_no_damage(tmp_path: Path, behind: bytes) -> None:
    path = tmp_path / "tagged.mp3"
    path.write_bytes(mp3(tmp_path) + behind)
    assert len(decode(path)) / RATE == pytest.approx(SECONDS, abs=0.05)


def test_a_cut_mp3_is_cut_whatever_follows(tmp_path: Path) -> None:
    path = tmp_path / "cut.mp3"
    for behind in (b"", ape(200_000)):
        path.write_bytes(mp3(tmp_path)[: len(mp3(tmp_path)) // 2] + behind)
        samples, error = heard(path)
        assert len(samples) / RATE == pytest.approx(SECONDS / 2, abs=0.1)
        assert error


@pytest.mark.parametrize(
    ("suffix", "codec", "header", "kept"),  # bytes of the header
    [("mp3", "libmp3lame", b"\xff\xf3", 0), ("aac", "aac", b"\xff\xf1", 4)],
)
def test_sound_behind_damage_is_heard_and_the_damage_is_an_error(
    tmp_path: Path, suffix: str, codec: str, header: bytes, kept: int
) -> None:
    container = "adts" if suffix == "aac" else None
    path = record(tmp_path / f"damaged.{suffix}", codec, RATE, 10.0, container)
    whole, _ = heard(path)
    data = bytearray(path.read_bytes())
    place = data.index(header, len(data) // 4) + kept
    data[place : place + 40] = np.random.default_rng(2).bytes(40)
    path.write_bytes(data)
    samples, error = heard(path)
    assert error.startswith("corrupt data after 2.")
    assert len(whole) - RATE < len(samples) <= len(whole)
    assert np.abs(samples[-RATE : -RATE // 4]).mean() > 0.1
    with pytest.raises(AudioError, match="corrupt data"):
        decode(path)


def test_a_cut_frame_of_aac_at_the_end_is_an_error(tmp_path: Path) -> None:
    path = record(tmp_path / "cut.aac", "aac", RATE, 5.0, "adts")
    path.write_bytes(path.read_bytes()[:-100])
    assert heard(path)[1].startswith("corrupt data after 4.9")


def test_a_damaged_cluster_of_webm_is_an_error_where_a_hole_is_none(tmp_path: Path) -> None:
    path = record(tmp_path / "damaged.webm", "libopus", seconds=20.0)
    data = bytearray(path.read_bytes())
    place = len(data) // 3
    data[place : place + 400] = np.random.default_rng(1).bytes(400)
    path.write_bytes(data)
    samples, error = heard(path)
    assert error.startswith("corrupt data after ")
    assert len(samples) / RATE == pytest.approx(20, abs=0.1)  # with silence for what is lost
