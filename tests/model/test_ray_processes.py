"""Files to text in the processes of a Ray cluster of two nodes: as in one process, each once."""

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from cortado.model.loading import Loading
from cortado.model.workers import transcripts_by
from cortado.tests.clients.ray_cluster import two_nodes
from cortado.tests.clients.serving import CORTADO, ENVIRONMENT
from cortado.tests.model.test_files import wav
from cortado.tests.model.test_workers import Ending, here, killing, saved_model

pytest.importorskip("ray", reason="needs the extra ray: make install EXTRAS=ray")
# Ray leaves sockets and files to the end of the process.
pytestmark = [pytest.mark.filterwarnings("ignore"), pytest.mark.slow]


@pytest.fixture(scope="module")
def loading(tmp_path_factory: pytest.TempPathFactory) -> Loading:
    return saved_model(tmp_path_factory.mktemp("checkpoint"))


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    """The address of a cluster that this process is connected to."""
    import ray

    with two_nodes() as found:
        ray.init(found, configure_logging=False, log_to_driver=False)
        try:
            yield found
        finally:
            ray.shutdown()


@pytest.mark.usefixtures("address")
def test_a_cluster_gives_each_file_once_and_gives_up_the_one_that_ends_its_processes(
    loading: Loading, tmp_path: Path
) -> None:
    from cortado.model.ray_processes import CLUSTER

    files = [wav(tmp_path / f"{k}.wav", k, 0.2 + 0.3 * (k % 4)) for k in range(7)]
    files[4].write_bytes(files[4].read_bytes()[:5000])  # cut
    files[2] = wav(tmp_path / "poison.wav", 9, 600.0)  # so long that whoever reads it is seen
    with killing(files[2]) as killed:  # four processes are wanted, for two of which there are cores
        got = list(transcripts_by(4, loading, files, place=CLUSTER))
    assert len(killed) == 2  # with others beside it, and alone
    assert sorted(one.number for one in got) == list(range(7))
    found = {one.number: one for one in got}
    bad = found.pop(2)
    end = "expected sound that can be transcribed, got the end of its process: "
    assert str(bad.error).startswith(f"{files[2]}: {end}")
    expected = here(loading, files[:2] + files[3:])
    for number, one in found.items():
        alone = expected[number - (number > 2)]
        assert one.transcript == alone.transcript
        assert str(one.error) == str(alone.error)
    assert [number for number, one in found.items() if one.error] == [4]


@pytest.mark.usefixtures("address")
def test_what_cannot_be_loaded_in_a_cluster_is_one_error(loading: Loading, tmp_path: Path) -> None:
    from cortado.model.ray_processes import CLUSTER

    file = wav(tmp_path / "a.wav", 1, 0.3)
    with pytest.raises(ValueError, match="expected a checkpoint"):
        list(transcripts_by(2, loading._replace(checkpoint=tmp_path), [file, file], place=CLUSTER))
    with pytest.raises(OSError, match="expected a process that transcribes, got the end of its"):
        list(transcripts_by(2, Ending(*loading), [file, file], place=CLUSTER))


def test_the_command_writes_what_a_single_process_writes_and_goes_on_with_what_is_left(
    address: str, loading: Loading, tmp_path: Path
) -> None:
    for number in range(3):
        wav(tmp_path / f"{number}.wav", number, 0.5)
    (tmp_path / "list.txt").write_text("0.wav\n1.wav\n2.wav\n")
    command = [*CORTADO, "transcribe", "list.txt", "--checkpoint", str(loading.checkpoint)]
    command += ["--beam", "1", "--format", "json", "--output"]
    environment = ENVIRONMENT | {"RAY_USAGE_STATS_ENABLED": "0"}
    subprocess.run([*command, "alone"], cwd=tmp_path, check=True)
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "1.json").write_text("kept")
    ray = [*command, "out", "--ray", "--address", address]
    done = subprocess.run(ray, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "out" / "1.json").read_text() == "kept"
    for name in ("0.json", "2.json"):
        assert json.loads((tmp_path / "out" / name).read_text())["duration"] == 0.5
        assert (tmp_path / "out" / name).read_text() == (tmp_path / "alone" / name).read_text()
