"""The page that follows a sound through the program names what is there, and each file once."""

import re
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
NAMED = re.findall(r"`((?:model|training|server|clients|tests)/[\w/.-]*)`", PAGE)


def test_the_way_of_a_sound_has_at_most_twelve_stops_and_none_twice() -> None:
    stops = [one.strip() for one in PAGE.split("```")[1].split("→")]
    assert stops[0] == "microphone"
    assert stops[-1] == "character"
    assert len(set(stops)) == len(stops) <= 12


def test_everything_that_the_page_names_is_there() -> None:
    assert [name for name in NAMED if not (ROOT / name).exists()] == []


def test_each_file_of_the_model_and_the_server_is_named_once() -> None:
    count = Counter(name for name in NAMED if name.endswith(".py"))
    assert [name for name, times in count.items() if times > 1] == []
    folders = tuple(name for name in NAMED if name.endswith("/") and name.count("/") > 1)
    files = (
        path.relative_to(ROOT).as_posix()
        for room in ("model", "server")
        for path in (ROOT / room).rglob("*.py")
        if path.name != "__init__.py"
    )
    assert [name for name in files if name not in count and not name.startswith(folders)] == []
