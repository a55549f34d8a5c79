"""Every setting, message field, code and metric is documented."""

import re
from pathlib import Path

import pytest
from pydantic import BaseModel

from cortado.server.metrics import Metrics
from cortado.server.protocol.messages import (
    CLOSE_CODES,
    Acknowledged,
    Chars,
    End,
    Endpoint,
    Error,
    ErrorCode,
    Final,
    Flush,
    Flushed,
    KeepAlive,
    Ready,
    Resume,
    Start,
    Suspend,
    Suspended,
)
from cortado.server.settings import ENV_PREFIX, Settings, flag

DOCS = Path(__file__).parents[2] / "docs"
PROTOCOL = (DOCS / "protocol.md").read_text()


def section(title: str) -> str:
    """Return the part of the protocol's page under a heading."""
    return PROTOCOL.split(f"\n### {title}\n")[1].split("\n#")[0]


@pytest.mark.parametrize("name", Settings.model_fields)
def test_a_setting_is_listed_with_flag_default_and_meaning(name: str) -> None:
    field = Settings.model_fields[name]
    default = "" if field.default in (None, ()) else f"`{field.default}`"
    cells = [f"`{ENV_PREFIX}{name.upper()}`", f"`--{flag(name)}`", default, field.description]
    assert f"| {' | '.join(map(str, cells))} |" in (DOCS / "settings.md").read_text()


@pytest.mark.parametrize(
    ("title", "message"),
    [
        ("`start`", Start),
        ("`resume`", Resume),
        ("`flush`", Flush),
        ("`keep_alive`", KeepAlive),
        ("`end`", End),
        ("`suspend`", Suspend),
        ("`ready`", Ready),
        ("`chars`", Chars),
        ("`acknowledged`", Acknowledged),
        ("`endpoint`", Endpoint),
        ("`flushed`", Flushed),
        ("`final`", Final),
        ("`suspended`", Suspended),
        ("`error`", Error),
    ],
)
def test_a_message_is_described_field_by_field(title: str, message: type[BaseModel]) -> None:
    described = re.findall(r"^\| `(\w+)` \|", section(title).split("\n| code")[0], re.MULTILINE)
    assert described == list(message.model_fields)


@pytest.mark.parametrize("code", ErrorCode)
def test_an_error_is_listed_with_its_close_code(code: ErrorCode) -> None:
    assert f"| `{code}` | {CLOSE_CODES[code]} |" in section("`error`")


def test_no_code_is_listed_that_does_not_exist() -> None:
    listed = re.findall(r"^\| `(\w+)` \| 1\d\d\d", section("`error`"), re.MULTILINE)
    assert listed == list(ErrorCode)


def test_every_metric_is_listed_and_has_a_help_text() -> None:
    page = (DOCS / "metrics.md").read_text()
    for family in Metrics().registry.collect():
        name = family.name + "_total" * (family.type == "counter")
        assert f"| `{name}` | {family.type} |" in page
        assert family.documentation.endswith(".")
