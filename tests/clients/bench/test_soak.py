"""The soak finds nothing wrong where nothing is, and says what is."""

import asyncio
import re
from dataclasses import replace
from pathlib import Path

import pytest

from cortado.clients.bench.soak import Findings, Sample, Soak, sample
from cortado.model.backends.reference import ReferenceRecognizer
from cortado.server.keys import KeyFile
from cortado.tests.model.untrained import TINY, TINY_SEED, untrained
from cortado.tests.server.running import running

FINE = Sample(memory=100e6, capacity=10, delays={0.02: 0.0, 0.15: 0.0, float("inf"): 0.0})


def later(count: float, slow: float = 0.0, memory: float = 100e6) -> Sample:
    """Return a sample after so many steps, of which a share was slow."""
    delays = {0.02: count * (1 - slow), 0.15: count, float("inf"): count}
    return replace(FINE, memory=memory, delays=delays)


@pytest.mark.slow
def test_a_soak_with_faults_finds_nothing_wrong() -> None:
    online: ReferenceRecognizer = untrained(TINY, TINY_SEED)
    with running(online) as server:
        asyncio.run(Soak(server.url, speed=2.0, longest=1.0).run(4, 2.0, lambda share: None))
        load = Soak(server.url, speed=2.0, longest=1.0)  # whose memory is what the first one took
        asyncio.run(load.run(4, 7.0, lambda share: None))
        assert server.is_at_rest()
    assert load.findings.wrong == []
    assert not [one for one in load.findings.problems() if one.startswith("memory")]
    assert load.findings.clients["speak"] > 0
    assert len(load.findings.samples) == 9


def test_refused_clients_wait_and_nothing_is_wrong_with_that() -> None:
    with running(untrained(TINY, TINY_SEED), max_streams=2) as server:
        load = Soak(server.url, speed=2.0, longest=1.0)
        asyncio.run(load.run(6, 4.0, lambda share: None))
    assert load.findings.wrong == []
    assert 1 < load.findings.clients["refused"] < 12  # each waits five seconds


def test_growth_and_differences_are_problems() -> None:
    steady = Findings(samples=[later(1000 * k) for k in range(9)])
    assert steady.problems() == []
    leaking = Findings(samples=[later(1000 * k, memory=(100 + 2 * k) * 1e6) for k in range(9)])
    assert leaking.problems() == ["memory grew from 102 to 116 MB"]
    slowing = Findings(samples=[later(1000 * k, slow=0.1 if k > 6 else 0.0) for k in range(9)])
    assert slowing.problems() == ["the 99th percentile of delays rose from 0.02 to 0.15 s"]
    differing = Findings(samples=steady.samples, wrong=["they differ", "they differ"])
    assert differing.problems() == ["they differ"]


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("http://127.0.0.1:1", "expected an address like ws://.*, got http://127.0.0.1:1"),
        ("127.0.0.1:8000", "expected an address like ws://.*, got 127.0.0.1:8000"),
        ("ws://127.0.0.1:1/v1/stream", "server at http://127.0.0.1:1/metrics: .*refused"),
    ],
)
def test_an_address_without_a_server_is_named(url: str, message: str) -> None:
    with pytest.raises((ValueError, ConnectionError), match=message):
        sample(url)


def test_a_server_with_keys_is_told_from_no_server(tmp_path: Path) -> None:
    file = KeyFile(tmp_path / "keys.json")
    file.add("phone")
    with running(untrained(TINY, TINY_SEED), keys=file.path) as server:
        message = f"expected a server without keys at {server.url}, got one that wants an API key"
        with pytest.raises(ConnectionError, match=f"^{re.escape(message)}$"):
            sample(server.url)
