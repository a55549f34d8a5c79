"""Every setting, message field, code and metric is documented, as it is in the program."""

import re
from pathlib import Path
from typing import get_args

import pytest
from pydantic import BaseModel

from cortado.server.metrics import Metrics
from cortado.server.protocol.errors import REASONS
from cortado.server.protocol.messages import ClientMessage, ErrorCode, ServerMessage
from cortado.server.reference.tables import PAGES
from cortado.server.settings import Settings, listed

DOCS = Path(__file__).parents[2] / "docs"


@pytest.mark.parametrize("page", PAGES)
def test_the_tables_of_a_page_are_those_of_the_program(page: str) -> None:
    text = (DOCS / page).read_text("utf-8")
    assert PAGES[page](text) == text, "make reference"


def test_every_setting_is_listed() -> None:
    assert set(listed()) == set(Settings.model_fields)


@pytest.mark.parametrize("message", [*get_args(ClientMessage), *get_args(ServerMessage)])
def test_every_field_of_a_message_has_a_meaning(message: type[BaseModel]) -> None:
    fields = message.model_fields.items()
    assert message.__doc__
    assert [name for name, one in fields if name != "type" and not one.description] == []


def test_every_error_has_its_reason() -> None:
    assert list(REASONS) == list(ErrorCode)
    assert all(reason.why.endswith(".") for reason in REASONS.values())
    assert all(1001 < reason.close < 1016 for reason in REASONS.values())


def test_every_word_with_which_a_request_is_refused_is_on_the_page() -> None:
    words = r'_refused\((?:\d+, )?"(\w+)"|return "(too_many_\w+)"'
    sources = ("access.py", "callers.py", "connection_limits.py")
    text = "".join((DOCS.parent / "server" / name).read_text() for name in sources)
    found = {one or other for one, other in re.findall(words, text)}
    page = (DOCS / "protocol.md").read_text()
    assert len(found) == 7
    assert [word for word in found if f"`{word}`" not in page] == []


def test_every_metric_is_listed_and_has_a_help_text() -> None:
    page = (DOCS / "metrics.md").read_text()
    for family in Metrics().registry.collect():
        name = family.name + "_total" * (family.type == "counter")
        assert f"| `{name}` | {family.type} |" in page
        assert family.documentation.endswith(".")


def test_every_code_of_the_python_client_is_documented() -> None:
    clients = DOCS.parent / "clients"
    sources = "".join(path.read_text("utf-8") for path in clients.glob("*.py"))
    codes = set(re.findall(r'StreamError\("(\w+)"', sources)) - set(ErrorCode)
    assert codes > {"unreachable", "closed"}
    text = (DOCS / "python.md").read_text("utf-8")
    assert [code for code in sorted(codes) if f"| `{code}` |" not in text] == []
