"""What no file of the tree may say, and how its versions are pinned."""

import re
import shutil
import subprocess
import tomllib
from functools import cache
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parent.parent
BINARY = {
    ".safetensors",
    ".wav",
    ".flac",
    ".ico",
    ".woff2",
    ".webm",
    ".webp",
    ".mp3",
    ".ogg",
    ".m4a",
}
# Written in halves so that this file does not say them itself.
REGISTRIES = [
    "pypi" + ".org",
    "python" + "hosted.org",
    "npmjs" + ".org",
    "download." + "pytorch.org",
    "docker" + ".io",
    "deb." + "debian.org",
]
# Absolute paths of whoever built it; `../shared` is the one place outside the tree.
PRIVATE_PATHS = re.compile(r"(?<![\w.])/(" + "|".join(["work", "root", "opt/pyp" + "i"]) + r")/\w")


@cache
def tracked() -> dict[Path, str]:
    """Return the text of the files that git would hand to somebody who clones."""
    if not (ROOT / ".git").exists() or shutil.which("git") is None:
        pytest.skip("not a git checkout")
    listing = subprocess.run(
        ["git", "-c", "safe.directory=*", "ls-files", "-z"],
        cwd=ROOT,
        capture_output=True,
        check=True,
    )
    paths = (ROOT / name for name in listing.stdout.decode().split("\0") if name)
    return {one: one.read_text() for one in paths if one.is_file() and one.suffix not in BINARY}


@pytest.mark.parametrize("host", REGISTRIES)
def test_no_file_names_a_package_registry(host: str) -> None:
    assert [path for path, text in tracked().items() if host in text] == []


def test_no_file_names_a_path_of_the_machine_it_was_written_on() -> None:
    assert [path for path, text in tracked().items() if PRIVATE_PATHS.search(text)] == []


def test_the_tree_stays_small_enough_to_clone_in_a_moment() -> None:
    checkpoints = list((ROOT / "model" / "pretrained").rglob("*.safetensors"))
    assert sum(path.stat().st_size for path in checkpoints) <= 25_000_000
    assert all(path.stat().st_size <= 1_000_000 for path in tracked())


def test_every_dependency_is_pinned_to_one_version() -> None:
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    pins = [line.split(";")[0].strip() for line in lines if line and not line.startswith("#")]
    assert [pin for pin in pins if not re.fullmatch(r"[a-z0-9-]+==[\w.+]+", pin)] == []
    pinned = {pin.partition("==")[0] for pin in pins}
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"].values()
    wanted = [*project["dependencies"], *(name for extra in extras for name in extra)]
    assert {re.split(r"[=<>\[]", name)[0] for name in wanted} <= pinned


def test_whatever_states_the_version_states_the_same() -> None:
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    newest = re.search(r"^## ([\d.]+) - ", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert newest
    assert newest[1] == version
    stated = {
        "docker/Dockerfile": r"ARG VERSION=(.*)",
        "docker/README.md": r"`VERSION`, `REVISION` \| `([\d.]+)`",
        "docker/compose.yaml": r"image: cortado:(.*)",
        "docker/ray/rayservice.yaml": r"image: cortado:(.*)",
        "clients/web/package.json": r'"version": "(.*)"',
    }
    for path, pattern in stated.items():
        assert set(re.findall(pattern, (ROOT / path).read_text())) == {version}, path


def test_the_hosted_checks_and_the_hooks_before_a_commit_run_what_is_run_here() -> None:
    workflow = yaml.safe_load((ROOT / ".github" / "workflows" / "ci.yml").read_text())
    assert workflow["jobs"]["check"]["steps"][-1] == {"run": ".ci/run"}
    [hooks] = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())["repos"]
    commands = [hook["entry"].split()[:2] for hook in hooks["hooks"]]
    makefile = (ROOT / "Makefile").read_text()
    for program, *words in commands:
        assert program.startswith(".venv/bin/")
        name = program.rpartition("/")[2]
        assert " ".join([f"$(BIN)/{name}", *words]) in makefile
    assert hooks["repo"] == "local"


@pytest.mark.parametrize("word", ["pip install cortado", "cortado["])
def test_nothing_tells_people_to_install_another_projects_package(word: str) -> None:
    own = Path(__file__)
    telling = [path for path, text in tracked().items() if path != own and word in text]
    assert telling == []


def test_packages_begin_empty() -> None:
    for package in ("model", "training", "server", "clients"):
        assert (ROOT / package / "__init__.py").read_text() == ""
