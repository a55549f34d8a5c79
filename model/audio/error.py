"""What is wrong with audio, in one line."""

from pathlib import Path

STDIN = Path("-")  # standard input, which is decoded as it comes


class AudioError(ValueError):
    """A file that gives no sound: the message is one line with its path, expected and got."""

    def __init__(self, path: Path, expected: str, got: str) -> None:
        self.facts = path, expected, got
        name = "standard input" if path == STDIN else str(path)
        name = name if name.isprintable() else repr(name)
        super().__init__(f"{name}: expected {expected}, got {' '.join(got.split())}")

    def __reduce__(self) -> tuple[type["AudioError"], tuple[Path, str, str]]:
        """Return what makes it again in another process."""
        return AudioError, self.facts
