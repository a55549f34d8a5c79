"""What can be known of the image without pulling anything."""

import importlib
import os
import re
import shutil
import ssl
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

from cortado.tests import needs
from cortado.tests.docker.dockerfile import Instruction, is_ignored, read
from cortado.tests.https import Quiet, answering, self_signed

ROOT = Path(__file__).parent.parent.parent
INSTRUCTIONS = read(ROOT / "docker" / "Dockerfile")
IGNORE = [
    line
    for line in (ROOT / ".dockerignore").read_text().splitlines()
    if line and not line.startswith("#")
]


def named(name: str, stage: str) -> list[Instruction]:
    return [it for it in INSTRUCTIONS if it.name == name and it.stage == stage]


def environment(stage: str) -> dict[str, str]:
    pairs = (word.partition("=") for it in named("ENV", stage) for word in it.words)
    return {name: value.strip('"') for name, _, value in pairs}


def test_hadolint_finds_nothing_wrong() -> None:
    program = shutil.which("hadolint", path=f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    if program is None:
        pytest.skip("needs hadolint, which the extra dev has for Linux on x86-64")
    done = subprocess.run([program, ROOT / "docker" / "Dockerfile"], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "")


def test_every_file_that_is_copied_exists_and_is_not_ignored() -> None:
    copies = [it for it in (*named("COPY", "build"), *named("COPY", "serve")) if not it.flags]
    sources = [word for it in copies for word in it.words[:-1]]
    assert {"pyproject.toml", "constraints.txt", "model", "server", "clients"} <= set(sources)
    assert [source for source in sources if not (ROOT / source).exists()] == []
    assert [source for source in sources if is_ignored(source, IGNORE)] == []


@pytest.mark.parametrize(
    ("path", "ignored"),
    [
        ("clients/web/index.html", False),
        ("docker/start.sh", False),
        ("model/pretrained/small-en/model.safetensors", False),
        ("server/__pycache__/app.cpython-311.pyc", True),
        (".venv/bin/python", True),
        (".git/config", True),
        ("tests/test_tree.py", True),
        ("runs/small-en/last/model.safetensors", True),
    ],
)
def test_the_build_sees_what_it_ships_and_nothing_else(path: str, ignored: bool) -> None:
    assert is_ignored(path, IGNORE) is ignored


def test_every_file_that_the_packages_metadata_names_is_copied() -> None:
    sources = {word for it in named("COPY", "build") for word in it.words[:-1]}
    assert {"README.md", "LICENSE"} <= sources


def test_it_does_not_run_as_root() -> None:
    [user] = named("USER", "serve")
    assert user.words == ["10001:10001"]
    assert INSTRUCTIONS.index(user) < INSTRUCTIONS.index(named("ENTRYPOINT", "serve")[0])


def test_it_starts_with_what_was_compiled_and_keeps_what_is_there(tmp_path: Path) -> None:
    compiled, cache, programs = (tmp_path / name for name in ("compiled", "tmp/numba", "bin"))
    (compiled / "model").mkdir(parents=True)
    for name in ("a.nbi", "b.nbi"):
        (compiled / "model" / name).write_text("of the image")
    (cache / "model").mkdir(parents=True)
    (cache / "model" / "a.nbi").write_text("of this CPU")
    programs.mkdir()
    (programs / "cortado").write_text('#!/bin/sh\necho "$@"\n')
    (programs / "cortado").chmod(0o755)
    own = {"PATH": f"{programs}:{os.environ['PATH']}", "COMPILED": str(compiled)}
    script = ROOT / "docker" / "start.sh"
    done = subprocess.run(
        [script, "serve", "--port", "0"],
        env=own | {"NUMBA_CACHE_DIR": str(cache)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "serve --port 0\n"
    found = {path.name: path.read_text() for path in (cache / "model").iterdir()}
    assert found == {"a.nbi": "of this CPU", "b.nbi": "of the image"}


def test_every_setting_that_it_sets_exists() -> None:
    from cortado.server.settings import ENV_PREFIX, Settings

    names = [name for name in environment("serve") if name.startswith(ENV_PREFIX)]
    known = {ENV_PREFIX + field.upper() for field in Settings.model_fields}
    assert names
    assert set(names) <= known


@pytest.mark.parametrize(
    ("extra", "index", "installs"),
    [
        ("", "ADDRESS", False),
        ("redis,otel", "ADDRESS", False),
        ("vad", "", False),
        ("redis,vad", "", False),
        ("vad", "ADDRESS", True),
        ("train", "A", True),
        ("vad,redis", "ADDRESS", True),
        ("redis,vad,otel", "ADDRESS", True),
    ],
)
def test_torch_comes_from_an_index_that_the_user_names_if_an_extra_brings_it(
    extra: str, index: str, installs: bool
) -> None:
    assert {"TORCH_INDEX", "EXTRA"} <= {
        it.words[0].partition("=")[0] for it in named("ARG", "build")
    }
    [step] = [it for it in named("RUN", "build") if "${TORCH_INDEX}" in it.text]
    done = subprocess.run(
        ["sh", "-euc", step.text.replace("/opt/tools/bin/uv", "echo")],
        cwd=ROOT,
        env={"PATH": os.environ["PATH"], "EXTRA": extra, "TORCH_INDEX": index},
        capture_output=True,
        text=True,
        check=True,
    )
    said = f"--index-url {index} torch==2.11.0 torchaudio==2.11.0\n"
    assert done.stdout.endswith(said if installs else "")
    assert bool(done.stdout) is installs


@pytest.mark.parametrize(
    ("extra", "said"),
    [
        ("", ""),
        ("redis", " --extra redis"),
        ("redis,otel", " --extra redis --extra otel"),
        ("redis, otel", " --extra redis --extra otel"),
    ],
)
def test_several_optional_parts_may_be_asked_for(extra: str, said: str) -> None:
    [step] = [it for it in named("RUN", "build") if "-r pyproject.toml" in it.text]
    done = subprocess.run(
        ["sh", "-euc", step.text.replace("/opt/tools/bin/uv", "echo")],
        env={"PATH": os.environ["PATH"], "EXTRA": extra},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.rstrip("\n").endswith(f"-r pyproject.toml{said}")


def test_the_readme_names_the_optional_parts_of_a_server() -> None:
    readme = (ROOT / "docker" / "README.md").read_text()
    [row] = [line for line in readme.splitlines() if line.startswith("| `EXTRA` |")]
    found = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    known = set(found["optional-dependencies"])
    named_there = set(re.findall(r"`([a-z]+)`", row))
    assert {"vad", "redis", "ray", "otel"} <= named_there <= known


def test_what_it_copies_builds_the_wheel(tmp_path: Path) -> None:
    copies = [it.words for it in named("COPY", "build") if not it.flags]
    for *sources, place in copies:
        for source in sources:
            if (ROOT / source).is_dir():
                shutil.copytree(ROOT / source, tmp_path / place)
            else:
                shutil.copy(ROOT / source, tmp_path / place)
    [build] = [it for it in named("RUN", "build") if "hatchling build" in it.text]
    command = build.text.partition("&&")[0].split()
    assert command[:2] == ["/opt/tools/bin/python", "-m"]
    command = [word.replace("/wheels", os.fspath(tmp_path / "wheels")) for word in command]
    subprocess.run([sys.executable, *command[1:]], cwd=tmp_path, check=True, capture_output=True)
    [wheel] = (tmp_path / "wheels").iterdir()
    assert {"cortado/__init__.py", "cortado/clients/cli.py"} <= set(
        zipfile.ZipFile(wheel).namelist()
    )


HEARD = """
import av
assert av.__file__.startswith({folder!r}), av.__file__
with av.open({sound!r}) as opened:
    print(sum(frame.samples for frame in opened.decode(audio=0)))
"""


@needs.installed("gcc")
def test_what_is_trimmed_still_decodes_and_encoders_of_video_are_gone(tmp_path: Path) -> None:
    packages = tmp_path / "lib" / "python3.11" / "site-packages"
    installed = Path(importlib.import_module("av").__file__ or "").parent.parent
    for name in ("av", "av.libs"):
        shutil.copytree(installed / name, packages / name)
    sound = str(ROOT / "clients" / "web" / "sample.webm")

    def heard(folder: Path) -> int:
        code = HEARD.format(folder=str(folder), sound=sound)
        environment = os.environ | {"PYTHONPATH": str(folder)}
        done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True)
        assert done.returncode == 0, done.stderr
        return int(done.stdout)

    before = heard(installed)
    subprocess.run([ROOT / "docker" / "trim.sh", tmp_path], check=True)
    assert heard(packages) == before > 0
    for name in ("x264", "x265", "SvtAv1Enc"):
        [encoder] = (packages / "av.libs").glob(f"lib{name}-*")
        assert encoder.stat().st_size < 50_000


def ready(status: int) -> type[Quiet]:
    """Return what answers /ready with `status`."""

    class Handler(Quiet):
        def do_GET(self) -> None:
            self.send_response(status if self.path == "/ready" else 404)
            self.end_headers()

    return Handler


def health(port: int, **settings: str) -> int:
    """Run the image's health check against `port`; return its exit code."""
    [check] = named("HEALTHCHECK", "serve")
    words = read_command(check.text.partition("CMD ")[2])
    own = {**os.environ, "CORTADO_PORT": str(port), "http_proxy": "http://127.0.0.1:9"} | settings
    return subprocess.run(
        [sys.executable, *words[1:]], env=own, capture_output=True, timeout=120
    ).returncode


def read_command(text: str) -> list[str]:
    return Instruction("serve", "CMD", text).words


@pytest.mark.parametrize(("status", "healthy"), [(200, True), (503, False), (404, False)])
def test_it_is_healthy_when_the_server_is_ready(status: int, healthy: bool) -> None:
    with answering(ready(status)) as port:
        assert (health(port) == 0) is healthy


@needs.openssl
def test_it_is_healthy_with_a_certificate_of_its_own(tmp_path: Path) -> None:
    certificate, key = tmp_path / "certificate.pem", tmp_path / "key.pem"
    self_signed(certificate, key, "speech.example.org")
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(certificate, key)
    with answering(ready(200), tls) as port:
        assert health(port, CORTADO_TLS_CERTIFICATE=str(certificate)) == 0


def test_it_is_not_healthy_when_nothing_listens() -> None:
    with answering(ready(200)) as port:
        pass
    assert health(port) == 1
