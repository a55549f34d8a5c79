"""Who may import whom: the four packages, the rooms of the model, and no circle anywhere.

An import counts wherever it stands: at a file's head, in a function, or for types only.
"""

import ast
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parent.parent
PACKAGES = ("model", "training", "server", "clients")
ALLOWED = {  # the longest name that fits says
    "model": ("model",),
    "training": ("training", "model"),
    "server": ("server", "model"),
    "clients": ("clients", "server.protocol"),
    # What a server wrote has the types of what this process transcribes; files are read alike.
    "clients.speech": (
        "clients",
        "server.protocol",
        "model.audio",
        "model.captions",
        "model.emission",
    ),
    "clients.captioning": ("clients", "server.protocol", "model.emission"),
    "clients.through_server": ("clients", "model.emission"),
    "clients.results": ("clients", "model.audio.remote"),
    "clients.progress": ("model.progress",),
    "clients.words": ("server.protocol", "model.captions", "model.emission"),
    # Where the packages meet: they measure and run everything.
    "clients.bench": PACKAGES,
    "clients.commands": PACKAGES,
}
FLOORS = (  # of the model, from below; the longest name that fits says
    (
        "vocabulary",
        "attention.config",
        "features.framing",
        "arrays",
        "compiled",
        "config_reader",
        "cores",
        "lock",
        "operation",
        "progress",
        "whole_file",
    ),
    ("config", "emission"),
    ("captions",),
    ("nbest",),
    ("layer",),
    ("audio", "features", "encoder", "attention", "decoder"),
    ("checkpoint_reader", "recognizer", "adaptation", "checkpoint"),
    ("search",),
    ("streaming",),
    ("backends",),
    ("description", "transcript", "loading", "files", "writing", "transcription"),
    ("processes", "ray_processes", "workers"),
)
DEFINITIONS = ("features", "encoder", "attention", "decoder")  # plain torch, on any device
FAST = ("model.compiled", "model.backends")
PURE = ("asyncio", "fastapi", "starlette", "threading", "torch", "uvicorn", "websockets")
TRAINING = ("torch", "torchaudio", "tensorboard", "matplotlib", "soundfile")
LIGHT = (  # what the base install runs without them
    *("server.run", "clients.speech", "clients.through_server"),
    *("model.transcription", "model.description", "model.files", "model.workers"),
    *("training.language.pruning", "training.data.prepare", "training.scoring.page"),
    *("training.scoring.evaluate", "training.scoring.report", "training.scoring.outputs"),
    *(f"clients.bench.streams.{name}" for name in ("report", "memory", "live", "load")),
    "clients.bench.endless.run",
)


def name_of(path: Path) -> str:
    """Return the dotted name of a source file, without the package's own."""
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


FILES = {name_of(path): path for room in PACKAGES for path in sorted((ROOT / room).rglob("*.py"))}


def imported(tree: ast.AST) -> set[str]:
    """Return the dotted names that code imports; those of ours as the modules that they lie in."""
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, "expected imports by their whole names, got a relative one"
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
    return {_module(name.removeprefix("cortado.")) for name in found}


def _module(name: str) -> str:
    parent = name.rpartition(".")[0]
    return parent if name not in FILES and parent in FILES else name


@cache
def imports(name: str) -> set[str]:
    return imported(ast.parse(FILES[name].read_text())) - {name}


def is_within(name: str, *rooms: str) -> bool:
    return any(name == room or name.startswith(f"{room}.") for room in rooms)


def test_every_import_follows_the_arrows() -> None:
    strangers = set()
    for name in FILES.keys() - {"clients.cli"}:  # which imports its commands by their names
        room = max((room for room in ALLOWED if is_within(name, room)), key=len)
        ours = {one for one in imports(name) if is_within(one, *PACKAGES, "tests")}
        strangers |= {(name, one) for one in ours if not is_within(one, *ALLOWED[room])}
    assert strangers == set()


def floor(name: str) -> int:
    """Return the floor of a module of the model."""
    fitting = [
        (len(room), height)
        for height, rooms in enumerate(FLOORS)
        for room in rooms
        if is_within(name, room)
    ]
    assert fitting, f"expected model.{name} on one of the floors, got none"
    return max(fitting)[1]


def test_nothing_in_the_model_imports_from_a_floor_above() -> None:
    inside = {
        name.removeprefix("model.")
        for name, path in FILES.items()
        if is_within(name, "model") and path.name != "__init__.py"
    }
    upward = {
        (name, one)
        for name in inside
        for one in (below.removeprefix("model.") for below in imports(f"model.{name}"))
        if one in inside and floor(one) > floor(name)
    }
    assert upward == set()


def test_a_definition_knows_nothing_of_what_is_fast() -> None:
    rooms = [f"model.{room}" for room in DEFINITIONS]
    knowing = {
        name.removeprefix("model.")
        for name in FILES
        if is_within(name, *rooms) and any(is_within(one, *FAST) for one in imports(name))
    }
    assert knowing == set()


def test_what_serves_and_evaluates_needs_nothing_of_training() -> None:
    waiting, seen = set(LIGHT), set[str]()
    while waiting:
        name = waiting.pop()
        seen.add(name)
        tree = ast.parse(FILES[name].read_text())
        tree.body = [node for node in tree.body if not _runs_later(node)]
        found = imported(tree)
        assert {one for one in found if is_within(one, *TRAINING)} == set(), name
        waiting |= (found & FILES.keys()) - seen


def test_there_is_no_circle() -> None:
    left = set(FILES)
    while ends := {name for name in left if not imports(name) & left}:
        left -= ends
    while begins := {name for name in left if not any(name in imports(one) for one in left)}:
        left -= begins
    assert left == set()


def test_a_command_imports_the_packages_only_when_it_is_run() -> None:
    for name in (name for name in FILES if is_within(name, "clients.commands", "clients.cli")):
        tree = ast.parse(FILES[name].read_text())
        tree.body = [node for node in tree.body if not _runs_later(node)]
        ours = {one for one in imported(tree) if is_within(one, *PACKAGES)}
        assert {one for one in ours if not is_within(one, "clients.commands")} == set(), name


def _runs_later(node: ast.stmt) -> bool:
    """Return whether a statement is a function, or `if TYPE_CHECKING:`, which never runs."""
    if isinstance(node, ast.If):
        return ast.unparse(node.test) == "TYPE_CHECKING"
    return isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)


def test_the_protocol_is_pure() -> None:
    for name in (name for name in FILES if is_within(name, "server.protocol")):
        assert {one for one in imports(name) if is_within(one, *PURE)} == set(), name
        ours = {one for one in imports(name) if is_within(one, *PACKAGES)}
        # Words, characters and texts of them, what is asked for, the tables of telephone codes.
        others = "captions", "emission", "nbest", "streaming.options", "audio.telephone"
        known = "server.protocol", *(f"model.{one}" for one in others)
        assert all(is_within(one, *known) for one in ours), name


def test_a_door_translates_and_does_nothing_else() -> None:
    shells = ("routes", "body", "upload")  # which are between sockets and doors
    doors = [
        name
        for name in FILES
        if is_within(name, "server.doors") and name.rpartition(".")[2] not in shells
    ]
    assert len(doors) > 5
    for name in doors:
        assert {one for one in imports(name) if is_within(one, *PURE)} == set(), name


def test_imports_are_found_wherever_they_stand() -> None:
    code = "if TYPE_CHECKING:\n from cortado.model import checkpoint_reader\n"
    code += "def f():\n import cortado.server.app\n from cortado.model.vocabulary import ENGLISH"
    assert imported(ast.parse(code)) == {
        *("model.checkpoint_reader", "model.vocabulary", "server.app")
    }
