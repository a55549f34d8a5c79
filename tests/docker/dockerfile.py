"""A reader of Dockerfiles, as much of their grammar as ours uses."""

import json
import re
from dataclasses import dataclass
from pathlib import Path, PurePosixPath


@dataclass(frozen=True)
class Instruction:
    stage: str  # the name after AS; "" before the first FROM
    name: str
    text: str

    @property
    def flags(self) -> dict[str, str]:
        """The leading --name=value words."""
        return dict(re.findall(r"--([a-z-]+)=(\S+)", self.text))

    @property
    def words(self) -> list[str]:
        """The words after the flags; those of the exec form where it has one."""
        text = re.sub(r"^(--[a-z-]+=\S+\s+)+", "", self.text)
        return json.loads(text) if text.startswith("[") else text.split()


def read(path: Path) -> list[Instruction]:
    """Return the instructions of the Dockerfile at `path`, in order, each with its stage."""
    lines = [line for line in path.read_text().splitlines() if not line.lstrip().startswith("#")]
    joined = re.sub(r"\\\n\s*", " ", "\n".join(lines))
    stage, instructions = "", []
    for line in filter(None, map(str.strip, joined.splitlines())):
        name, _, text = line.partition(" ")
        if name == "FROM":
            stage = text.partition(" AS ")[2]
        instructions.append(Instruction(stage, name, text.strip()))
    return instructions


def is_ignored(path: str, patterns: list[str]) -> bool:
    """Say whether .dockerignore `patterns` leave out the POSIX `path`; the last match wins."""
    ignored = False
    for pattern in patterns:
        keep, bare = pattern.startswith("!"), pattern.removeprefix("!")
        names = [PurePosixPath(path), *PurePosixPath(path).parents][:-1]
        if any(_matches(name, bare) for name in names):
            ignored = not keep
    return ignored


def _matches(name: PurePosixPath, pattern: str) -> bool:
    if pattern.startswith("**/"):
        return name.match(pattern.removeprefix("**/"))
    return len(name.parts) == len(PurePosixPath(pattern).parts) and name.match(pattern)
