"""Settings by environment and by flag."""

import pytest

from server.settings import flag, read_settings


def test_a_flag_wins_over_the_environment_and_that_over_the_default(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert read_settings().port == 8000
    monkeypatch.setenv("CORTADO_PORT", "9001")
    assert read_settings(port=None).port == 9001
    assert read_settings(port="9002").port == 9002


def test_origins_are_separated_by_commas(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CORTADO_ALLOWED_ORIGINS", "https://a.example, https://b.example/ ,")
    assert read_settings().allowed_origins == ("https://a.example", "https://b.example")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("port", "70000"),
        ("port", "http"),
        ("host", ""),
        ("max_streams", "0"),
        ("buffer_seconds", "nan"),
        ("idle_timeout_seconds", "-1"),
        ("max_stream_seconds", "inf"),
        ("log_level", "loud"),
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


def test_settings_do_not_change() -> None:
    settings = read_settings()
    with pytest.raises(ValueError, match="frozen"):
        settings.port = 1
