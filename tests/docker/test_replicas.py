"""Two servers behind a balancer, as `docker/` has them: voices move between real processes."""

import asyncio
import os
import re
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack, ExitStack, contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import httpx

from cortado.clients.stream import connect
from cortado.model.checkpoint_reader import DEFAULT
from cortado.server.settings import ENV_PREFIX, Settings
from cortado.tests import needs
from cortado.tests.clients.serving import Served, serving, transcribe
from cortado.tests.clients.speech import speech, write
from cortado.tests.clients.voices import Said, Voices, beside
from cortado.tests.docker.test_monitoring import compose
from cortado.tests.ports import unused_port
from cortado.tests.server.running import PATIENCE, rounded, wait_for

FOLDER = Path(__file__).parent.parent.parent / "docker"
VOICES = 6
HEALTH_SECONDS = 3.0  # after which the balancer has seen that a server is back
KEY = "a key that both servers share"


@contextmanager
def balancer(folder: Path, *replicas: Served) -> Iterator[str]:
    """Run Caddy with the configuration of `docker/`; yield its address."""
    program = needs.program("caddy")
    where = f"http://127.0.0.1:{unused_port()}"
    servers = " ".join(f"127.0.0.1:{one.port}" for one in replicas)
    environment = os.environ | {"SITE": where, "REPLICAS": servers, "HOME": str(folder)}
    command = [program, "run", "--adapter", "caddyfile", "--config"]
    with (
        (folder / "caddy.log").open("w") as log,
        subprocess.Popen(
            [*command, FOLDER / "replicas" / "Caddyfile"], env=environment, stdout=log, stderr=log
        ) as process,
    ):
        try:
            assert wait_for(lambda: answers(where)), (folder / "caddy.log").read_text()
            yield where
        finally:
            process.terminate()


def answers(page: str) -> bool:
    try:
        return httpx.get(f"{page}/ready", trust_env=False).is_success
    except httpx.TransportError:
        return False


def live(replica: Served) -> int:
    """Return how many streams a server has."""
    lines = httpx.get(f"{replica.page}/metrics", trust_env=False).text.splitlines()
    [found] = [line for line in lines if line.startswith("cortado_streams_active ")]
    return int(float(found.split()[1]))


def test_voices_move_between_servers_that_are_killed_stopped_and_started(tmp_path: Path) -> None:
    """One is killed under load and comes back, then the other is replaced: no voice notices."""
    flags = ["--store", str(tmp_path / "streams.sqlite"), "--state-key", KEY]
    flags += ["--save-seconds", "0.5", "--keep-seconds", "600", "--idle-timeout-seconds", "600"]
    samples = rounded(speech(tmp_path)[1])

    def serve(name: str, *more: str) -> Served:
        return stack.enter_context(serving(DEFAULT, tmp_path / name, *flags, *more))

    async def all_of_it(page: str) -> list[Said]:
        url = page.replace("http", "ws") + "/v1/stream"
        async with AsyncExitStack() as opened, asyncio.timeout(10 * PATIENCE):
            streams = [await opened.enter_async_context(connect(url)) for _ in range(VOICES)]
            assert [live(each) for each in (one, other)] == [VOICES // 2] * 2
            voices = Voices(streams, samples)
            await beside(voices.speak(0), one.process.kill)
            assert await asyncio.to_thread(wait_for, lambda: live(other) == VOICES)
            again = await asyncio.to_thread(serve, "again", "--port", str(one.port))
            await asyncio.sleep(HEALTH_SECONDS)
            await beside(voices.speak(1), other.stop)
            assert await asyncio.to_thread(wait_for, lambda: live(again) == VOICES)
            await voices.speak(2)
            return await voices.end()

    with ExitStack() as stack:
        with ThreadPoolExecutor() as pool:
            one, other = pool.map(serve, ("one", "other"))
        page = stack.enter_context(balancer(tmp_path, one, other))
        assert httpx.get(f"{page}/metrics", trust_env=False).status_code == 404
        found = asyncio.run(all_of_it(page))
    [whole] = transcribe(DEFAULT, write(tmp_path / "speech.wav", samples))
    assert whole["text"].strip()
    times = [one["time"] for one in whole["characters"]]
    assert [times for _, times in found] == [times] * VOICES
    assert {text for text, _ in found} == {"".join(one["text"] for one in whole["characters"])}


def test_compose_gives_its_servers_one_store_one_key_and_the_balancer_s_address() -> None:
    services = compose("compose.replicas.yaml")["services"]
    one, other = services["cortado"]["environment"], services["other"]["environment"]
    assert one == other
    assert {name.removeprefix(ENV_PREFIX).lower() for name in one} <= set(Settings.model_fields)
    address = services["balancer"]["networks"]["inside"]["ipv4_address"]
    assert one["CORTADO_TRUSTED_PROXIES"] == address
    store = urlsplit(one["CORTADO_STORE"])
    assert (store.scheme, store.hostname) == ("redis", "redis")
    assert services["cortado"]["build"] == services["other"]["build"]
    assert services["cortado"]["build"]["args"] == {"EXTRA": "redis,${EXTRA:-redis}"}  # and others


def test_the_balancer_of_compose_knows_all_servers_and_only_it_can_be_reached() -> None:
    services = compose("compose.replicas.yaml")["services"]
    named = services["balancer"]["environment"]
    servers = [name for name in services if name not in ("balancer", "redis")]
    assert named["REPLICAS"].split() == [f"{name}:8000" for name in servers]
    asked = set(re.findall(r"\{\$(\w+)\}", (FOLDER / "replicas" / "Caddyfile").read_text()))
    assert asked == set(named)
    for port, number in zip(services["balancer"]["ports"], ("80", "443"), strict=True):
        assert re.fullmatch(r"\$\{PUBLISH(_HTTPS)?:-127\.0\.0\.1:\d+\}:" + number, port)
    assert [name for name in services if services[name].get("ports")] == ["balancer"]
    hosts = services["cortado"]["environment"]["CORTADO_ALLOWED_HOSTS"].split(",")
    assert set(servers) < set(hosts)  # the balancer asks each for its health by its name
