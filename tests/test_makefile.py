"""The two commands of a newcomer: what they say when something is missing."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from cortado.tests import needs

ROOT = Path(__file__).parent.parent

pytestmark = needs.installed("make")


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    for name in ("Makefile", "pyproject.toml", "constraints.txt"):
        shutil.copy(ROOT / name, tmp_path)
    return tmp_path


def make(clone: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    own = {name: value for name, value in os.environ.items() if not name.startswith("MAKE")}
    return subprocess.run(
        ["make", *arguments], cwd=clone, env=own, capture_output=True, text=True, timeout=60
    )


def stub(path: Path, script: str) -> Path:
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return path


def installing(clone: Path, script: str) -> None:
    """Give a clone an environment whose programs are a script."""
    (clone / ".venv" / "bin").mkdir(parents=True)
    for name in ("python", "uv"):
        stub(clone / ".venv" / "bin" / name, script)


@pytest.mark.parametrize("target", ["serve", "test"])
def test_a_machine_without_a_new_enough_python_is_told_so(clone: Path, target: str) -> None:
    old = stub(clone / "python3.8", "exit 1")
    result = make(clone, target, f"PYTHON={old}")
    assert result.returncode != 0
    assert "Python 3.11 to 3.14 is needed" in result.stderr
    assert not (clone / ".venv").exists()


def test_a_python_without_venv_is_told_how_to_get_it(clone: Path) -> None:
    python = stub(clone / "python3", 'case "$2" in *ensurepip*) exit 1;; esac')
    result = make(clone, "serve", f"PYTHON={python}")
    assert result.returncode != 0
    assert "lacks the venv module" in result.stderr
    assert "python3-venv" in result.stderr


def test_an_environment_that_is_up_to_date_is_not_installed_again(clone: Path) -> None:
    (clone / ".venv" / "bin").mkdir(parents=True)
    stub(clone / ".venv" / "bin" / "python", "exit 1")
    stub(clone / ".venv" / "bin" / "cortado", 'echo "served $*"')
    for stamp in (".uv", ".installed", ".developing"):
        (clone / ".venv" / stamp).touch()
    result = make(clone, "serve", "ARGS=--port 9000")
    assert (result.returncode, result.stdout) == (0, "served serve --port 9000\n")


def test_an_install_that_fails_says_so_and_is_tried_again_the_next_time(clone: Path) -> None:
    installing(clone, "echo no route to host >&2; exit 1")
    for _ in range(2):
        result = make(clone, "serve")
        assert result.returncode != 0
        assert "the packages could not be installed" in result.stderr
        assert "no route to host" in result.stderr


@pytest.mark.parametrize(
    ("arguments", "wanted", "indexed"),
    [
        ("install", ".", False),
        ("install EXTRAS=mic,whisper", ".[mic,whisper]", False),
        ("install EXTRAS=mic,train", ".[mic,train]", True),
        ("develop", ".[train,mic,vad,whisper,redis,otel,ray,archive,dev]", True),
    ],
)
def test_torch_and_its_index_are_asked_for_only_where_an_extra_brings_torch(
    clone: Path, arguments: str, wanted: str, indexed: bool
) -> None:
    installing(clone, 'echo "$*"')
    done = make(clone, *arguments.split(), "TORCH_INDEX=ADDRESS")
    assert done.returncode == 0, done.stderr
    *before, last = [line for line in done.stdout.splitlines() if line.startswith("pip install")]
    assert last.endswith(f"--constraint constraints.txt --editable {wanted}")
    assert [("--index-url ADDRESS torch==" in line) for line in before] == [True] * indexed
    again = make(clone, *arguments.split())
    assert "pip install" not in again.stdout


def test_help_lists_every_target_that_a_user_may_name(clone: Path) -> None:
    text = (clone / "Makefile").read_text()
    targets = text.partition(".PHONY: ")[2].partition("\n")[0].split()
    shown = make(clone, "help").stdout
    assert [target for target in targets if f"make {target} " not in shown] == []


@pytest.mark.parametrize("file", ["Makefile", "pyproject.toml", "constraints.txt"])
def test_a_checkout_whose_requirements_were_updated_is_installed_again(
    clone: Path, file: str
) -> None:
    installing(clone, 'echo "$*"')
    assert "pip install" in make(clone, "develop").stdout
    assert "pip install" not in make(clone, "develop").stdout
    later = (clone / ".venv" / ".developing").stat().st_mtime + 10
    os.utime(clone / file, (later, later))
    assert "pip install" in make(clone, "develop").stdout
