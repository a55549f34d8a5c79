"""The files for operators, held against what the server has."""

import configparser
import json
import re
import subprocess
import sys
from ipaddress import ip_address, ip_network
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest
import yaml

from cortado.clients.commands.failures import EXIT_USER_ERROR
from cortado.server.metrics import Metrics
from cortado.server.run import EXIT_ENGINE_FAILED
from cortado.server.settings import ENV_PREFIX, Settings, read_settings
from cortado.tests import needs
from cortado.tests.docker.dockerfile import read

FOLDER = Path(__file__).parent.parent.parent / "docker"


class Loader(yaml.SafeLoader):
    """YAML with compose's own tags."""


Loader.add_constructor("!reset", lambda *_: None)


def readme() -> str:
    return (FOLDER / "README.md").read_text()


def compose(name: str = "compose.monitoring.yaml") -> dict[str, Any]:
    found = yaml.load((FOLDER / name).read_text(), Loader)
    assert isinstance(found, dict)
    return found


def alerts() -> dict[str, str]:
    """Return the expression of each alert."""
    document = yaml.safe_load((FOLDER / "monitoring" / "alerts.yml").read_text())
    return {rule["alert"]: rule["expr"] for group in document["groups"] for rule in group["rules"]}


def test_the_dashboard_and_the_alerts_ask_for_metrics_that_exist() -> None:
    known = {"up"}  # Prometheus' own: whether it could scrape
    for family in Metrics().registry.collect():
        suffixes = {"counter": ["_total"], "histogram": ["_bucket", "_count"]}.get(
            family.type, [""]
        )
        known |= {family.name + suffix for suffix in suffixes}
    dashboard = json.loads((FOLDER / "monitoring" / "dashboard.json").read_text())
    asked = [target["expr"] for panel in dashboard["panels"] for target in panel["targets"]]
    for expression in [*asked, *alerts().values()]:
        names = re.findall(r"\b(?:(?:cortado|process)_\w+|up\b)", expression)
        assert names
        assert set(names) <= known


def test_every_alert_is_documented() -> None:
    said = (FOLDER.parent / "docs" / "metrics.md").read_text()
    assert re.findall(r"^\| `(Cortado\w+)` \|", said, flags=re.MULTILINE) == list(alerts())


@pytest.fixture
def promtool() -> str:
    return needs.program("promtool", "prometheus")


def test_prometheus_finds_nothing_wrong_with_its_configuration(
    promtool: str, tmp_path: Path
) -> None:
    prometheus = compose()["services"]["prometheus"]
    key = tmp_path / "prometheus.key"
    key.write_text("ck_prometheus_")
    for mount in prometheus["volumes"]:
        source, place, *_ = mount.split(":")
        if place.endswith(".yml"):  # all beside one another, as in the container
            assert Path(place).parent == Path("/etc/prometheus")
            text = (FOLDER / source).read_text()
            (tmp_path / Path(place).name).write_text(text.replace("/etc/prometheus", str(tmp_path)))
    done = subprocess.run(
        [promtool, "check", "config", "--lint-fatal", tmp_path / "prometheus.yml"],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{len(alerts())} rules found" in done.stdout


LATE = 'cortado_processing_delay_seconds_bucket{instance="a",le="0.1"}'
REFUSED = 'cortado_connections_refused_total{instance="a",reason="%s"}'
STARTED = 'process_start_time_seconds{job="cortado",instance="a"}'
# Twenty minutes, a sample each 15 s.
HEALTHY = {
    'up{job="cortado",instance="a"}': "1+0x80",
    STARTED: "100+0x80",
    'cortado_streams_active{instance="a"}': "10+0x80",
    'cortado_streams_capacity{instance="a"}': "100+0x80",
    'cortado_step_duration_seconds_count{instance="a"}': "0+375x80",
    'cortado_errors_total{instance="a",code="internal_error"}': "0+0x80",
    'cortado_errors_total{instance="a",code="idle_timeout"}': "0+1x80",
    REFUSED % "internal_error": "0+0x80",
    REFUSED % "too_many_streams": "0+0x80",
    REFUSED % "key": "0+1x80",
    'cortado_store_failures_total{instance="a"}': "0+0x80",
    LATE: "0+3750x80",
    LATE.replace("0.1", "0.15"): "0+3750x80",
    LATE.replace("0.1", "+Inf"): "0+3750x80",
    'cortado_audio_seconds_total{instance="a"}': "0+150x80",
}


def try_rules(promtool: str, folder: Path, case: dict[str, Any]) -> None:
    """Check that the alerts fire as Prometheus' own test of rules says."""
    file = folder / "test.yml"
    rules = [str(FOLDER / "monitoring" / "alerts.yml")]
    file.write_text(json.dumps({"rule_files": rules, "tests": [case]}))
    done = subprocess.run([promtool, "test", "rules", file], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize(
    ("alert", "series", "values"),
    [
        ("", STARTED, "100+0x60 200+0x20"),  # an update
        ("CortadoDown", 'up{job="cortado",instance="a"}', "1+0x60 0+0x20"),
        ("CortadoRestarts", STARTED, "100+0x60 200+100x20"),
        (
            "CortadoStalled",
            'cortado_step_duration_seconds_count{instance="a"}',
            "0+375x60 22500+0x20",
        ),
        (
            "CortadoFails",
            'cortado_errors_total{instance="a",code="internal_error"}',
            "0+0x75 1+0x5",
        ),
        ("CortadoFails", REFUSED % "internal_error", "0+0x75 1+0x5"),
        ("CortadoStoreFails", 'cortado_store_failures_total{instance="a"}', "0+0x75 1+0x5"),
        ("CortadoRefuses", REFUSED % "too_many_streams", "0+0x75 1+0x5"),
        ("CortadoFull", 'cortado_streams_active{instance="a"}', "95+0x80"),
        ("CortadoSlow", LATE, "0+3000x80"),
    ],
)
def test_an_alert_fires_when_it_should_and_no_other_does(
    alert: str, series: str, values: str, promtool: str, tmp_path: Path
) -> None:
    given = HEALTHY | {series: values}
    assert len(given) == len(HEALTHY)
    labels = f'{{alertname="{alert}"}}'
    expected = [{"labels": labels, "value": 1}] if alert else []
    firing = 'count by (alertname) (ALERTS{alertstate="firing"})'
    case = {
        "interval": "15s",
        "input_series": [{"series": one, "values": those} for one, those in given.items()],
        "promql_expr_test": [{"expr": firing, "eval_time": "20m", "exp_samples": expected}],
    }
    try_rules(promtool, tmp_path, case)


def test_a_stalled_server_is_told_with_its_live_streams(promtool: str, tmp_path: Path) -> None:
    steps, streams = "cortado_step_duration_seconds_count", "cortado_streams_active"
    stalled = {f'{steps}{{instance="a"}}': "0+0x80", f'{streams}{{instance="a"}}': "7+0x80"}
    fires = {
        "exp_labels": {"severity": "critical", "instance": "a"},
        "exp_annotations": {"summary": "a has 7 live streams, and its model takes no step."},
    }
    given = (HEALTHY | stalled).items()
    case = {
        "interval": "15s",
        "input_series": [{"series": one, "values": values} for one, values in given],
        "alert_rule_test": [
            {"alertname": "CortadoStalled", "eval_time": "20m", "exp_alerts": [fires]}
        ],
    }
    try_rules(promtool, tmp_path, case)


def test_every_file_that_compose_mounts_is_there_or_is_made_by_the_readme() -> None:
    said = readme()
    for name, service in compose()["services"].items():
        for mount in service["volumes"]:
            source = mount.partition(":")[0]
            if source.startswith("."):
                made = f"docker/{source.removeprefix('./')}" in said
                assert made or (FOLDER / source).is_file(), f"{name}: {source}"


def test_the_server_sees_a_change_of_the_keys_because_their_folder_is_mounted() -> None:
    server = compose()["services"]["cortado"]
    keys = Path(server["environment"]["CORTADO_KEYS"])
    [source] = [one.split(":")[0] for one in server["volumes"] if f":{keys.parent}:" in one]
    made = f"docker/{source.removeprefix('./')}"
    assert f"mkdir {made}\n" in readme()
    assert f"cortado keys {made}/{keys.name} --remove" in readme()
    assert f"/{made}/" in (FOLDER.parent / ".gitignore").read_text().splitlines()


def test_compose_gives_the_server_settings_that_it_has() -> None:
    services = compose()["services"]
    given = services["cortado"]["environment"]
    assert {name.removeprefix(ENV_PREFIX).lower() for name in given} <= set(Settings.model_fields)
    proxy = services["caddy"]["networks"]["inside"]["ipv4_address"]
    assert given["CORTADO_TRUSTED_PROXIES"] == proxy
    assert services["grafana"]["ports"][0].startswith("127.0.0.1:")


@pytest.mark.parametrize("name", ["monitoring", "replicas"])
def test_no_other_service_gets_the_proxy_s_address_before_it_starts(name: str) -> None:
    document = compose(f"compose.{name}.yaml")
    [network] = document["networks"]["inside"]["ipam"]["config"]
    whole, given = ip_network(network["subnet"]), ip_network(network["ip_range"])
    proxy = ip_address(document["services"]["cortado"]["environment"]["CORTADO_TRUSTED_PROXIES"])
    assert given.subnet_of(whole)  # type: ignore[arg-type]
    assert proxy in whole
    assert proxy not in given


def test_the_server_may_write_where_compose_stores_its_streams() -> None:
    document = compose("compose.yaml")
    steps = [it for it in read(FOLDER / "Dockerfile") if it.stage == "serve"]
    [folder] = [
        word.split("=")[1] for it in steps for word in it.text.split() if "STATE_DIR" in word
    ]
    assert f"state:{folder}" in document["services"]["cortado"]["volumes"]
    made = f"install -d -o cortado -g cortado {folder}"  # a new volume has its owner from there
    assert [it for it in steps if made in it.text]


def test_systemd_starts_a_failed_server_again_and_waits_for_its_streams() -> None:
    unit = configparser.RawConfigParser(strict=False)
    unit.optionxform = str  # type: ignore[assignment]
    unit.read(FOLDER / "systemd" / "cortado.service")
    service = unit["Service"]
    assert service["Restart"] == "on-failure"
    assert EXIT_ENGINE_FAILED != 0
    assert service["RestartPreventExitStatus"] == str(EXIT_USER_ERROR) != str(EXIT_ENGINE_FAILED)
    assert service["ExecReload"] == "/bin/kill -HUP $MAINPID"
    assert float(service["TimeoutStopSec"]) > read_settings().drain_timeout_seconds + 1


def test_the_readme_installs_what_systemd_starts() -> None:
    said = readme()
    assert "sudo python3 -m venv /opt/cortado\n" in said
    assert "sudo /opt/cortado/bin/pip install -c constraints.txt .\n" in said
    assert "docker/systemd/cortado.service /etc/systemd/system/cortado.service\n" in said
    [file] = re.findall(r"CORTADO_KEYS=(\S+) \|", said)
    assert f"chmod a+r {file}\n" in said  # the server's user owns nothing


def test_systemd_finds_nothing_wrong(tmp_path: Path) -> None:
    program = needs.program("systemd-analyze", "systemd")
    text = (FOLDER / "systemd" / "cortado.service").read_text()
    assert "/opt/cortado/bin/cortado" in text
    more = re.search(r"^    \[Service\]\n(?:    \w+=.*\n)+", readme(), flags=re.MULTILINE)
    assert more is not None
    text += dedent(more[0])  # what the readme would have an operator add
    unit = tmp_path / "cortado.service"
    unit.write_text(text.replace("/opt/cortado/bin/cortado", sys.executable))
    done = subprocess.run([program, "verify", unit], capture_output=True, text=True)
    assert (done.returncode, done.stdout + done.stderr) == (0, "")
