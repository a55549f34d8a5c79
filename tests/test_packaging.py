"""What somebody gets who installs Cortado from a wheel or from a source archive."""

import configparser
import os
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import httpx
import pytest

pytest.importorskip("hatchling")

ROOT = Path(__file__).parent.parent
PACKAGES = ("model", "training", "server", "clients")
NOTES = (  # of studies, and the tasks beside speech: not installed
    *("training/results/", "training/LOG.md", "training/RESULTS.md"),
    *("training/text/", "training/recipes/text/"),
)


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the wheel and the source archive, built without a network."""
    folder = tmp_path_factory.mktemp("dist")
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-d", os.fspath(folder)],
        cwd=ROOT,
        check=True,
        capture_output=True,
        timeout=120,
    )
    return folder


@pytest.fixture(scope="module")
def wheel(built: Path) -> zipfile.ZipFile:
    [path] = built.glob("cortado_asr-*-py3-none-any.whl")
    return zipfile.ZipFile(path)


@pytest.fixture(scope="module")
def installed(wheel: zipfile.ZipFile, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder into which the wheel is unpacked, away from the tree; what is compiled comes along.

    Compiled code is for sources of the same text, date and size, so it is that of the wheel's own.
    """
    folder = tmp_path_factory.mktemp("site")
    wheel.extractall(folder)
    for path in (folder / "cortado").rglob("*.py"):
        source = ROOT / path.relative_to(folder / "cortado")
        shutil.copystat(source, path)
        for compiled in source.parent.glob(f"__pycache__/{source.stem}.*.nb[ci]"):
            (path.parent / "__pycache__").mkdir(exist_ok=True)
            shutil.copy2(compiled, path.parent / "__pycache__")
    return folder


def shipped() -> set[str]:
    """The files of the packages, as paths of the tree."""
    files = (path for package in PACKAGES for path in (ROOT / package).rglob("*"))
    return {
        path.relative_to(ROOT).as_posix()
        for path in files
        if path.is_file() and "__pycache__" not in path.parts
    }


def test_the_wheel_holds_the_four_packages_without_the_notes_of_studies(
    wheel: zipfile.ZipFile,
) -> None:
    names = {name for name in wheel.namelist() if ".dist-info/" not in name}
    wanted = {name for name in ("__init__.py", *shipped()) if not name.startswith(NOTES)}
    assert names == {f"cortado/{name}" for name in wanted}


def test_the_wheel_installs_the_one_command_and_its_licence(wheel: zipfile.ZipFile) -> None:
    [entry] = [name for name in wheel.namelist() if name.endswith("entry_points.txt")]
    parser = configparser.ConfigParser()
    parser.read_string(wheel.read(entry).decode())
    assert dict(parser["console_scripts"]) == {"cortado": "cortado.clients.cli:main"}
    assert any(name.endswith("licenses/LICENSE") for name in wheel.namelist())


def test_the_source_archive_holds_what_builds_and_checks_it(built: Path) -> None:
    [path] = built.glob("cortado_asr-*.tar.gz")
    with tarfile.open(path) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    wanted = {"pyproject.toml", "constraints.txt", "Makefile", "README.md", "LICENSE", "PKG-INFO"}
    assert wanted <= names
    assert shipped() <= names
    assert "tests/test_packaging.py" in names


def somebody_elses(folder: Path) -> Path:
    """Fill a folder with modules that are named as our rooms are, and cannot be imported."""
    for name in (*PACKAGES, "tests", "compiled", "cli", "stream"):
        (folder / f"{name}.py").write_text(f"raise RuntimeError('the {name} of somebody else')\n")
    for name in ("clients", "docker"):
        (folder / name).mkdir()
        (folder / name / "__init__.py").write_text("raise RuntimeError('somebody else's clients')")
    return folder


def test_modules_of_our_rooms_names_in_the_working_folder_break_nothing(
    installed: Path, tmp_path: Path
) -> None:
    code = (
        "import cortado.clients.cli, cortado.server.app, cortado.training.scoring.evaluate\n"
        "from cortado import connect, load, transcribe\n"
        "print(cortado.__file__); raise SystemExit(cortado.clients.cli.main(['info']))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=somebody_elses(tmp_path),
        env={**os.environ, "PYTHONPATH": os.fspath(installed)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert Path(done.stdout.splitlines()[0]).is_relative_to(installed)


def test_a_text_task_is_refused_in_a_wheel_on_one_line(installed: Path, tmp_path: Path) -> None:
    code = "import sys, cortado.clients.cli as cli; sys.exit(cli.main())"
    done = subprocess.run(
        [sys.executable, "-c", code, "text", "train", "a.toml", "-o", "runs"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": os.fspath(installed)},
        capture_output=True,
        text=True,
    )
    message = "cortado: the text tasks need a clone of the project; they are not installed\n"
    assert (done.returncode, done.stderr) == (2, message)


def test_the_wheel_serves_its_page_and_its_model_away_from_the_tree(
    installed: Path, tmp_path: Path
) -> None:
    code = "import sys, cortado.clients.cli as cli; print(cli.__file__); sys.exit(cli.main())"
    process = subprocess.Popen(
        [sys.executable, "-c", code, "serve", "--port", "0"],
        cwd=somebody_elses(tmp_path),
        env={**os.environ, "PYTHONPATH": os.fspath(installed)},
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        assert Path(process.stdout.readline().strip()).is_relative_to(installed)
        found = re.search(r"http://[\d.]+:\d+", process.stdout.readline())
        assert found is not None
        assert httpx.get(f"{found[0]}/ready", timeout=30).json() == {"status": "ready"}
        assert "<title>" in httpx.get(f"{found[0]}/", timeout=30).text
    finally:
        process.terminate()
        process.communicate(timeout=60)
