"""A file is there as a whole or not at all, and writers do not disturb each other."""

import os
from pathlib import Path

import pytest

from cortado.model.whole_file import named, whole, write_whole
from cortado.tests import needs


def test_a_failure_leaves_the_old_file_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("old")
    with pytest.raises(UnicodeEncodeError), whole(path) as part:
        part.write_text("new, but \udc80", encoding="utf-8")
    assert [(one.name, one.read_text()) for one in tmp_path.iterdir()] == [("file", "old")]


@needs.full_disk
@pytest.mark.parametrize("place", ["/dev/full", "file"])
def test_a_disk_that_is_full_is_told_with_the_file(tmp_path: Path, place: str) -> None:
    path = tmp_path / place
    with pytest.raises(OSError, match=f"No space.*{place}"), whole(path) as part:
        (part if part == path else Path("/dev/full")).write_text("text")
    assert [*tmp_path.iterdir()] == []


def test_an_error_of_ours_stays_as_it_is(tmp_path: Path) -> None:
    with pytest.raises(OSError, match=r"^a process ended$"), named(tmp_path):
        raise OSError("a process ended")


def test_a_place_that_cannot_be_taken_leaves_nothing(tmp_path: Path) -> None:
    path = tmp_path / "folder"
    path.mkdir()
    with pytest.raises(IsADirectoryError):
        write_whole(path, "new")
    assert [*tmp_path.iterdir()] == [path]


def test_a_device_a_pipe_and_a_link_are_written_to_and_stay(tmp_path: Path) -> None:
    link, pipe = tmp_path / "link", tmp_path / "pipe"
    link.symlink_to("file")
    write_whole(link, "text")
    assert (tmp_path / "file").read_text() == link.read_text() == "text"
    os.mkfifo(pipe)
    with open(os.open(pipe, os.O_RDWR), "rb", buffering=0) as end:
        write_whole(pipe, "text")
        assert end.read(9) == b"text"
    assert link.is_symlink()
    assert pipe.is_fifo()


def test_two_writers_at_once_write_two_files_and_the_last_stays(tmp_path: Path) -> None:
    path = tmp_path / "file"
    with whole(path) as one:
        one.write_text("one, ")
        write_whole(path, "other")
        assert path.read_text() == "other"
        with one.open("a") as file:
            file.write("whole")
    assert path.read_text() == "one, whole"
    assert [*tmp_path.iterdir()] == [path]


def test_a_file_has_the_permissions_that_it_would_have_or_those_wanted(tmp_path: Path) -> None:
    usual, public, private = (tmp_path / name for name in ("usual", "public", "private"))
    usual.write_text("")
    write_whole(public, "all")
    with whole(private, 0o600) as part:
        part.write_text("mine")
    assert public.stat().st_mode == usual.stat().st_mode
    assert private.stat().st_mode & 0o777 == 0o600


def test_a_name_may_be_as_long_as_the_file_system_allows(tmp_path: Path) -> None:
    path = tmp_path / ("ä" * 127)  # 254 bytes of 255
    write_whole(path, "long")
    assert path.read_text() == "long"
