"""What compose would run, read as it reads it."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from cortado.clients.commands.plan import SERVER_GIB, STREAM_GIB
from cortado.server.settings import ENV_PREFIX, Settings
from cortado.tests.docker.dockerfile import read
from cortado.tests.docker.test_monitoring import compose, readme

ROOT = Path(__file__).parent.parent.parent
FOLDER = ROOT / "docker"
COMPILES_SECONDS = 150  # docker/README.md has the measurement
FIRST_START_GIB = 1.0  # of a process that compiles; docs/scaling.md has the measurement
COMPILED_GIB = 0.03  # of kernels, for the build's CPU and for another
UPLOADS = 9  # at once, of the largest size, as docker/README.md says


@pytest.fixture(scope="module")
def service() -> dict[str, Any]:
    document = compose("compose.yaml")
    assert list(document["services"]) == ["cortado"]
    found = document["services"]["cortado"]
    assert isinstance(found, dict)
    return found


def test_its_build_arguments_are_those_of_the_dockerfile(service: dict[str, Any]) -> None:
    known = re.findall(r"^ARG (\w+)", (FOLDER / "Dockerfile").read_text(), flags=re.MULTILINE)
    assert set(service["build"]["args"]) <= set(known)


def test_it_is_published_on_loopback_unless_told_otherwise(service: dict[str, Any]) -> None:
    assert service["ports"] == ["${PUBLISH:-127.0.0.1:8000}:8000"]


def test_it_may_write_nothing_but_tmp_and_has_no_privileges(service: dict[str, Any]) -> None:
    assert service["read_only"] is True
    assert [mount.partition(":")[0] for mount in service["tmpfs"]] == ["/tmp"]
    assert service["cap_drop"] == ["ALL"]
    assert service["security_opt"] == ["no-new-privileges:true"]


def test_its_health_is_asked_for_as_the_image_says(service: dict[str, Any]) -> None:
    [check] = [it for it in read(FOLDER / "Dockerfile") if it.name == "HEALTHCHECK"]
    image = {name.replace("-", "_"): value for name, value in check.flags.items()}
    assert {name: str(value) for name, value in service["healthcheck"].items()} == image


def test_a_start_that_compiles_is_not_called_unhealthy(service: dict[str, Any]) -> None:
    period = float(service["healthcheck"]["start_period"].removesuffix("s"))
    assert period > COMPILES_SECONDS


def test_it_is_given_longer_to_stop_than_its_streams_need(service: dict[str, Any]) -> None:
    grace = float(service["stop_grace_period"].removesuffix("s"))
    assert grace > Settings.model_fields["drain_timeout_seconds"].default


def gibibytes(size: str) -> float:
    """Return what compose or Kubernetes calls 512m, 2g or 2Gi."""
    number, unit = re.fullmatch(r"(\d+)([mg])i?", size.lower()).groups()  # type: ignore[union-attr]
    return float(number) / {"m": 1024, "g": 1}[unit]


def default(text: str) -> str:
    """Return what compose takes where the variable in the text is not set."""
    [found] = re.findall(r"\$\{\w+:-(\w+)\}", text)
    assert isinstance(found, str)
    return found


def test_its_tmp_holds_several_uploads_beside_what_was_compiled(service: dict[str, Any]) -> None:
    upload = Settings.model_fields["max_upload_bytes"].default / 2**30
    assert gibibytes(default(service["tmpfs"][0])) >= UPLOADS * upload + COMPILED_GIB


def test_its_memory_is_enough_for_tmp_a_start_that_compiles_and_all_streams(
    service: dict[str, Any],
) -> None:
    streams = Settings.model_fields["max_streams"].default * STREAM_GIB
    tmp = gibibytes(default(service["tmpfs"][0]))
    assert gibibytes(default(service["mem_limit"])) >= tmp + FIRST_START_GIB + streams


def test_a_pod_of_ray_has_memory_for_a_start_that_compiles() -> None:
    found = yaml.safe_load((FOLDER / "ray" / "rayservice.yaml").read_text())
    [workers] = found["spec"]["rayClusterConfig"]["workerGroupSpecs"]
    [container] = workers["template"]["spec"]["containers"]
    limit = container["resources"]["limits"]["memory"]
    assert gibibytes(limit) >= FIRST_START_GIB + SERVER_GIB


def test_the_memory_of_a_server_is_the_same_wherever_it_is_said() -> None:
    said = (ROOT / "docs" / "scaling.md").read_text()
    figures = f"{SERVER_GIB:g} GiB and {1024 * STREAM_GIB:g} MiB a stream"
    assert f"| memory of a server | {figures} |" in said
    [peak] = set(re.findall(r"has compiled takes (\d+) MiB", said + readme()))
    assert float(peak) <= 1024 * FIRST_START_GIB


def test_every_setting_of_the_server_is_passed_on(service: dict[str, Any]) -> None:
    fixed = {"host", "port"}  # those of the image
    names = {ENV_PREFIX + field.upper() for field in Settings.model_fields if field not in fixed}
    assert set(service["environment"]) == names
