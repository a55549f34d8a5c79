"""Settings by environment and by flag."""

import re

import pytest

from cortado.clients.cli import main
from cortado.model.search.settings import MAX_WAIT_MS, MAX_WIDTH
from cortado.server.settings import Settings, flag, read_settings


def test_a_flag_wins_over_the_environment_and_that_over_the_default(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert read_settings().port == 8000
    monkeypatch.setenv("CORTADO_PORT", "9001")
    assert read_settings(port=None).port == 9001
    assert read_settings(port="9002").port == 9002


def test_origins_are_those_that_browsers_send() -> None:
    given = "https://Example.org, https://a.example:443/, http://b.example:8000, http://[::1]:80"
    found = Settings.model_validate({"allowed_origins": given}).allowed_origins
    others = ("http://b.example:8000", "http://[::1]")
    assert found == ("https://example.org", "https://a.example", *others)


def test_origins_are_separated_by_commas(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CORTADO_ALLOWED_ORIGINS", "https://a.example, https://b.example/ ,")
    assert read_settings().allowed_origins == ("https://a.example", "https://b.example")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("port", "70000"),
        ("port", "http"),
        ("max_streams", "0"),
        ("buffer_seconds", "nan"),
        ("idle_timeout_seconds", "-1"),
        ("max_stream_seconds", "inf"),
        ("log_level", "loud"),
        ("allowed_origins", "example.org"),
        ("allowed_origins", "https://example.org/page"),
        ("allowed_hosts", "https://example.org"),
        ("allowed_hosts", "example.org:443"),
        ("trusted_proxies", "10.0.0.0/8,proxy"),
        ("traces", "collector:4318"),
    ],
)
def test_a_value_that_cannot_be_used_is_named(
    name: str, value: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(ValueError, match=f"^--{flag(name)}: .*, got '{value}'"):
        read_settings(**{name: value})
    monkeypatch.setenv(f"CORTADO_{name.upper()}", value)
    with pytest.raises(ValueError, match=f"^CORTADO_{name.upper()}: "):
        read_settings()


def test_an_empty_variable_is_none_at_all(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in Settings.model_fields:
        monkeypatch.setenv(f"CORTADO_{name.upper()}", "")
    assert read_settings() == Settings.model_construct()
    with pytest.raises(ValueError, match=r"^--host: .* at least 1 character, got ''"):
        read_settings(host="")


def test_a_secret_that_cannot_be_used_is_not_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CORTADO_STATE_KEY", "hunter2")
    with pytest.raises(ValueError, match=r"KEY: expected 16 characters .*, got a secret") as caught:
        read_settings()
    assert "hunter2" not in str(caught.value)


def test_every_setting_is_a_flag_of_serve(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["serve", "--help"]) == 0
    shown = set(re.findall(r"^  --([a-z-]+)", capsys.readouterr().out, re.MULTILINE))
    assert shown - {"help"} == {flag(name) for name in Settings.model_fields}


@pytest.mark.parametrize(("name", "most"), [("beam", MAX_WIDTH), ("hold", MAX_WAIT_MS)])
def test_the_search_may_be_what_the_recogniser_allows(name: str, most: int) -> None:
    assert f"at most {most}" in str(Settings.model_fields[name].description)
    assert getattr(read_settings(**{name: str(most)}), name) == most
    with pytest.raises(ValueError, match=f"equal to {most}, got '{most + 1}'"):
        read_settings(**{name: str(most + 1)})


def test_settings_do_not_change() -> None:
    settings = read_settings()
    with pytest.raises(ValueError, match="frozen"):
        settings.port = 1
