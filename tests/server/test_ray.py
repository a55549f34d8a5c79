"""Replicas of Ray Serve on two nodes: the command, real proxies, and voices that move."""

import asyncio
import json
import subprocess
from collections.abc import Iterator
from contextlib import AsyncExitStack, ExitStack
from pathlib import Path
from types import SimpleNamespace

import httpx
import numpy as np
import psutil
import pytest
import websockets
import yaml
from prometheus_client.parser import text_string_to_metric_families
from websockets.sync import client

from cortado.clients.connection import StreamError
from cortado.clients.stream import connect
from cortado.model.checkpoint_reader import DEFAULT
from cortado.server.keys import KeyFile
from cortado.server.metrics import Metrics
from cortado.server.settings import ENV_PREFIX, Settings, read_settings
from cortado.tests.clients.ray_cluster import two_nodes
from cortado.tests.clients.serving import CORTADO, ENVIRONMENT, ROOT, transcribe
from cortado.tests.clients.speech import speech, write
from cortado.tests.clients.voices import Said, Voices, beside
from cortado.tests.ports import unused_port
from cortado.tests.server.running import PATIENCE, START, rounded, say, wait_for

pytest.importorskip("ray", reason="needs the extra ray: make install EXTRAS=ray")
# Ray leaves sockets and files to the end of the process.
pytestmark = pytest.mark.filterwarnings("ignore")

VOICES = 4
KEY = "a key that all replicas share"


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with two_nodes() as found:
        yield found


@pytest.fixture(scope="module")
def port() -> int:
    """The port of the proxy, which stays as it was when Serve began."""
    return unused_port()


def deploy(
    address: str, port: int, store: Path, fewest: int = 2, most: int = 2, **settings: str
) -> None:
    """Run `cortado deploy ray` to its end."""
    environment = {**ENVIRONMENT, "CORTADO_STORE": str(store), "CORTADO_STATE_KEY": KEY}
    environment |= {"CORTADO_SAVE_SECONDS": "0.5", "CORTADO_HEADROOM": "1"}
    environment |= {"CORTADO_KEEP_SECONDS": "600", "CORTADO_IDLE_TIMEOUT_SECONDS": "600"}
    command = [*CORTADO, "deploy", "ray", "--address", address, "--port", str(port)]
    command += ["--fewest", str(fewest), "--most", str(most), "--leave-seconds", "1"]
    done = subprocess.run(
        [*command, "--checkpoint", str(DEFAULT)],
        cwd=ROOT,
        env=environment | settings,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert f"Cortado listens: open http://127.0.0.1:{port}" in done.stdout


def replicas() -> list[psutil.Process]:
    """Return the processes of the replicas of this test's cluster."""
    found = []
    for process in psutil.Process().children(recursive=True):
        try:
            if "ServeReplica:cortado" in " ".join(process.cmdline()):
                found.append(process)
        except psutil.Error:  # it has ended meanwhile
            continue
    return found


def test_a_replica_comes_for_more_streams_and_more_are_carried(
    address: str, port: int, tmp_path: Path
) -> None:
    async def all_of_it() -> None:
        url = f"ws://127.0.0.1:{port}/v1/stream"

        async def fits() -> bool:
            try:
                await opened.enter_async_context(connect(url))
            except StreamError as error:
                if error.code != "too_many_streams":
                    raise
                return False
            return True

        async with AsyncExitStack() as opened, asyncio.timeout(5 * PATIENCE):
            assert [await fits() for _ in range(3)] == [True, True, False]
            while len(replicas()) < 2 or not await fits():
                await asyncio.sleep(0.5)
            assert await fits()
            assert not await fits()

    store = tmp_path / "streams.sqlite"
    deploy(address, port, store, fewest=1, most=2, CORTADO_MAX_STREAMS="2")
    assert len(replicas()) == 1
    asyncio.run(all_of_it())


def all_see(port: int, streams: int) -> bool:
    """Return whether ten scrapes, whoever answers, have two replicas with so many streams."""
    found = []
    for _ in range(10):
        page = httpx.get(f"http://127.0.0.1:{port}/metrics", trust_env=False).text
        families = {one.name: one for one in text_string_to_metric_families(page)}
        active = families["cortado_streams_active"].samples
        found.append({each.labels["replica"]: each.value for each in active})
    return all(len(one) == 2 and sum(one.values()) == streams for one in found)


def test_voices_move_between_replicas_that_are_killed_and_updated(
    address: str, port: int, tmp_path: Path
) -> None:
    samples, store = rounded(speech(tmp_path)[1]), tmp_path / "streams.sqlite"

    def are_two_others(before: list[psutil.Process]) -> bool:
        now = replicas()
        return len(now) == 2 and set(now) != set(before)

    async def all_of_it() -> list[Said]:
        url = f"ws://127.0.0.1:{port}/v1/stream"
        async with AsyncExitStack() as opened, asyncio.timeout(10 * PATIENCE):
            streams = [await opened.enter_async_context(connect(url)) for _ in range(VOICES)]
            assert await asyncio.to_thread(wait_for, lambda: all_see(port, VOICES))
            voices, first = Voices(streams, samples), replicas()
            await beside(voices.speak(0), first[0].kill)
            assert await asyncio.to_thread(wait_for, lambda: are_two_others(first))
            second = replicas()
            await beside(
                voices.speak(1), lambda: deploy(address, port, store, CORTADO_MAX_STREAMS="64")
            )
            assert await asyncio.to_thread(wait_for, lambda: not set(replicas()) & set(second))
            await voices.speak(2)
            return await voices.end()

    deploy(address, port, store)
    assert len(replicas()) == 2
    assert wait_for(lambda: all_see(port, 0))
    found = asyncio.run(all_of_it())
    assert wait_for(lambda: all_see(port, 0))
    with pytest.raises(websockets.InvalidStatus):  # a page of another site
        say(f"ws://127.0.0.1:{port}/v1/stream", origin="https://elsewhere.example")
    info = httpx.get(f"http://127.0.0.1:{port}/v1/info", trust_env=False).json()
    assert info["limits"]["max_streams"] == 64
    [whole] = transcribe(DEFAULT, write(tmp_path / "speech.wav", samples))
    assert whole["text"].strip()
    times = [one["time"] for one in whole["characters"]]
    assert [times for _, times in found] == [times] * VOICES
    assert {text for text, _ in found} == {"".join(one["text"] for one in whole["characters"])}


def test_who_comes_through_the_proxy_is_known_and_held_to_the_limits(
    address: str, port: int, tmp_path: Path
) -> None:
    key, url = KeyFile(tmp_path / "keys.json").add("phone-app"), f"127.0.0.1:{port}/v1"

    def answer(stack: ExitStack, caller: str) -> str | int:
        """Open a stream for whom a proxy on this machine names; return what it is told."""
        headers = {"Authorization": f"Bearer {key}", "X-Forwarded-For": caller}
        try:
            opened = client.connect(f"ws://{url}/stream", additional_headers=headers)
        except websockets.InvalidStatus as error:
            return error.response.status_code
        socket = stack.enter_context(opened)
        socket.send(START)
        return json.loads(socket.recv(PATIENCE))["type"]

    def status(**headers: str) -> int:
        return httpx.get(f"http://{url}/info", headers=headers, trust_env=False).status_code

    limits = {"CORTADO_MAX_STREAMS_PER_ADDRESS": "1", "CORTADO_MAX_STREAMS_PER_KEY": "2"}
    limits["CORTADO_KEYS"] = str(tmp_path / "keys.json")
    store = tmp_path / "streams.sqlite"
    deploy(address, port, store, 1, 1, **limits, CORTADO_TRUSTED_PROXIES="127.0.0.0/8")
    with ExitStack() as stack:
        callers = ("203.0.113.1", "203.0.113.1", "203.0.113.2", "203.0.113.3")
        found = [answer(stack, one) for one in callers]
        assert found == ["ready", 429, "ready", 429]  # of one address, and of one key
    assert status() == status(Authorization="Bearer ck_phone-app_1") == 401
    assert status(Authorization=f"Bearer {key}") == 200
    assert status(Authorization=f"Bearer {key}", Host="elsewhere.example") == 421
    deploy(address, port, store, 1, 1, **limits)  # which trusts no proxy: all come from here
    with ExitStack() as stack:
        assert [answer(stack, "203.0.113.1") for _ in range(2)] == ["ready"] * 2


def test_a_page_of_replicas_keeps_what_each_says() -> None:
    from cortado.server.ray_metrics import merged

    pages = {}
    for name, streams in (("a", 2), ("b", 5)):
        one = Metrics()
        one.active.set(streams)
        one.refused.labels("too_many_streams").inc(streams)
        one.delay.observe_many(np.full(streams, 0.1))
        pages[name] = one.exposition()
    found = {one.name: one for one in text_string_to_metric_families(merged(pages).decode())}
    plain = {one.name: one for one in text_string_to_metric_families(pages["a"].decode())}
    assert set(found) == set(plain)
    for name, family in plain.items():
        whole = found[name]
        assert (whole.type, whole.documentation) == (family.type, family.documentation)
        own = [each for each in whole.samples if each.labels["replica"] == "a"]
        assert [(each.name, each.value) for each in own] == [
            (each.name, each.value) for each in family.samples
        ]
    [of_b] = [one for one in found["cortado_streams_active"].samples if one.value == 5]
    assert of_b.labels == {"replica": "b"}


def test_replicas_that_cannot_start_are_one_line(address: str, port: int, tmp_path: Path) -> None:
    environment = {**ENVIRONMENT, "CORTADO_STORE": str(tmp_path / "streams.sqlite")}
    environment |= {"CORTADO_STATE_KEY": KEY}
    command = [*CORTADO, "deploy", "ray", "--address", address, "--port", str(port)]
    command += ["--checkpoint", str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert done.returncode == 2
    line = done.stderr.splitlines()[-1]
    assert line.startswith("cortado: expected replicas that run, got: ")
    assert f"expected a checkpoint at {tmp_path}, got no model.json" in line


def test_kuberay_s_file_runs_this_application_with_settings_that_exist() -> None:
    from ray.serve.schema import ServeDeploySchema

    from cortado.server import ray_replicas

    spec = yaml.safe_load((ROOT / "docker" / "ray" / "rayservice.yaml").read_text())["spec"]
    [found] = ServeDeploySchema.model_validate(yaml.safe_load(spec["serveConfigV2"])).applications
    assert found.import_path == f"cortado.server.ray_replicas:{ray_replicas.build.__name__}"
    replicas = ray_replicas.Replicas(**found.args)
    cluster = spec["rayClusterConfig"]
    [workers] = cluster["workerGroupSpecs"]
    [worker] = workers["template"]["spec"]["containers"]
    assert worker["resources"]["requests"]["cpu"] == str(replicas.cores)
    assert (workers["minReplicas"], workers["maxReplicas"]) == (replicas.fewest, replicas.most)
    [head] = cluster["headGroupSpec"]["template"]["spec"]["containers"]
    assert head["env"] == worker["env"]
    given = {one["name"]: one.get("value") for one in worker["env"]}
    assert ray_replicas.ENVIRONMENT.items() <= given.items()
    settings = {name for name in given if name.startswith(ENV_PREFIX)}
    assert {one.removeprefix(ENV_PREFIX).lower() for one in settings} <= set(Settings.model_fields)


def test_replicas_follow_live_streams_and_refusals() -> None:
    from cortado.server.ray_replicas import TARGET, wanted

    def decided(**reports: list[float]) -> int:
        metrics = {name: dict(enumerate(values)) for name, values in reports.items()}
        return wanted(SimpleNamespace(aggregated_metrics=metrics, target_num_replicas=3))[0]

    assert decided() == 3  # none has reported yet
    assert TARGET == 0.7
    assert decided(streams=[70, 70], capacity=[100, 100], refused=[0, 0]) == 2
    assert decided(streams=[71, 70], capacity=[100, 100], refused=[0, 0]) == 3
    assert decided(streams=[100, 100], capacity=[100, 100], refused=[50, 30]) == 4
    assert decided(streams=[0, 0], capacity=[100, 100], refused=[0, 0]) == 0  # Ray keeps the fewest


def test_a_store_of_one_process_is_refused() -> None:
    from cortado.server.ray_replicas import Replicas, application

    with pytest.raises(ValueError, match="expected a store that all replicas share, got memory"):
        application(read_settings(store="memory"), Replicas())
