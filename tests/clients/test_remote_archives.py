"""`cortado transcribe` with addresses: an object store that speaks S3, the web, memory."""

import json
import os
import shutil
import socket
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler
from pathlib import Path

import pytest

from cortado.tests.clients.test_transcribe_command import run
from cortado.tests.https import Quiet, answering

pytest.importorskip("upath", reason="needs the extra archive: make install EXTRAS=archive")
# The clients of stores leave connections to the end of the process.
pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::DeprecationWarning")

Capture = pytest.CaptureFixture[str]


@pytest.fixture(scope="module")
def store() -> Iterator[None]:
    """An object store that speaks S3, to which the environment leads."""
    from moto.moto_server.threaded_moto_server import ThreadedMotoServer

    server = ThreadedMotoServer("127.0.0.1", 0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AWS_ENDPOINT_URL", f"http://{host}:{port}")
        patch.setenv("AWS_ACCESS_KEY_ID", "somebody")
        patch.setenv("AWS_SECRET_ACCESS_KEY", "a secret")
        patch.setenv("AWS_DEFAULT_REGION", "us-east-1")
        patch.setenv("NO_PROXY", host)
        yield
    server.stop()


class Files(Quiet, SimpleHTTPRequestHandler):
    """It gives files."""


@pytest.fixture
def web(tmp_path: Path) -> Iterator[str]:
    """A web server of the test's folder."""
    with answering(partial(Files, directory=tmp_path)) as port:
        yield f"http://127.0.0.1:{port}"


def results(folder: Path) -> dict[str, dict[str, object]]:
    """Return what was written below a folder, without the names of the files that were heard."""
    found = {}
    for path in folder.rglob("*.json"):
        found[path.relative_to(folder).as_posix()] = content = json.loads(path.read_text())
        del content["file"]
    return found


def kept(archive: Path, bucket: str) -> None:
    """Put a folder into a new bucket, below talks/."""
    import s3fs

    system = s3fs.S3FileSystem()
    system.mkdir(bucket)
    system.put(f"{archive}/", f"{bucket}/talks/", recursive=True)


@pytest.mark.usefixtures("store")
@pytest.mark.parametrize("workers", [1, 2])
def test_an_object_store_s_folder_gives_what_the_folder_gives_and_only_what_is_left(
    archive: Path, saved: str, tmp_path: Path, capsys: Capture, workers: int
) -> None:
    bucket, json_at = f"recordings-{workers}", ("--format", "json", "-o")
    address = f"s3://{bucket}/talks"
    assert run(saved, archive, *json_at, tmp_path / "here") == 0
    (archive / "c.wav").write_bytes((archive / "a.wav").read_bytes()[:9000])
    kept(archive, bucket)
    out = tmp_path / "out"
    assert run(saved, address, *json_at, out, "--workers", workers) == 2
    [line] = capsys.readouterr().err.splitlines()
    assert line.startswith(f"cortado: {address}/c.wav: expected a whole file, got one cut ")
    assert results(out) == results(tmp_path / "here")
    assert json.loads((out / "a.json").read_text())["file"] == f"{address}/a.wav"
    (out / "a.json").write_text('{"file": "kept"}')
    os.utime(out / "deep" / "b.json", (0, 0))  # older than the recording
    assert run(saved, address, *json_at, out, "--workers", workers) == 2
    assert json.loads((out / "a.json").read_text()) == {"file": "kept"}
    assert (out / "deep" / "b.json").stat().st_mtime > 0


def test_a_list_names_files_of_the_web_and_of_this_disk(
    archive: Path, saved: str, tmp_path: Path, web: str, capsys: Capture
) -> None:
    listing = tmp_path / "list.txt"
    at = f"{web}/archive"
    lines = [f"{at}/a.wav?key=1", "archive/deep/b.wav", f"file://{archive}/a.wav", f"{at}/no.wav"]
    listing.write_text("\n".join(lines))
    for given in (listing, f"{web}/list.txt"):
        out = tmp_path / "out"
        assert run(saved, given, "-o", out) == 2
        [line] = capsys.readouterr().err.splitlines()
        assert (
            line == f"cortado: {at}/no.wav: expected an audio file, got nothing: it does not exist"
        )
        host = web.removeprefix("http://")
        found = {path.relative_to(out).as_posix() for path in out.rglob("*.txt")}
        assert found == {"a.txt", "archive/deep/b.txt", f"{host}/archive/a.txt"}
        assert (out / "a.txt").read_text() == (out / host / "archive" / "a.txt").read_text() != "\n"
        shutil.rmtree(out)


def test_one_file_of_a_store_is_written_as_it_is_said(
    archive: Path, saved: str, capsys: Capture
) -> None:
    from upath import UPath

    UPath("memory://talks/a.wav").write_bytes((archive / "a.wav").read_bytes())
    assert run(saved, archive / "a.wav") == 0
    assert run(saved, "memory://talks/a.wav") == 0
    here, there = capsys.readouterr().out.splitlines()
    assert here == there != ""
    (archive / "deep" / "b.wav").unlink()
    assert run(saved, "memory://talks", "-o", archive / "out") == 0
    assert (archive / "out" / "a.txt").read_text() == here + "\n"


@pytest.mark.usefixtures("store")
def test_addresses_that_lead_nowhere_are_one_line(saved: str, capsys: Capture) -> None:
    with socket.socket() as taken:  # nobody listens there
        taken.bind(("127.0.0.1", 0))
        nobody = f"http://127.0.0.1:{taken.getsockname()[1]}/a.wav"
        for address, message in (
            ("quux://a/b.wav", "expected an address that fsspec reads, got quux://a/b.wav"),
            (nobody, f"{nobody}: expected a readable file, got 'Cannot connect"),
            ("s3://no-such-bucket/a.wav", "s3://no-such-bucket/a.wav: expected an audio file, got"),
            ("memory://nothing/a.wav", "memory://nothing/a.wav: expected an audio file, got"),
        ):
            assert run(saved, address) == 2
            [line] = capsys.readouterr().err.splitlines()
            assert line.startswith(f"cortado: {message}")
