"""Values with bounds, which are checked as a file is read, not where Python makes a dataclass."""

import re
from collections.abc import Sequence
from typing import Annotated, TypeVar

from pydantic import AfterValidator, Field, NonNegativeInt

Items = TypeVar("Items", bound=Sequence[object])

Count = NonNegativeInt
Weight = Annotated[float, Field(ge=0)]
Share = Annotated[float, Field(ge=0, le=1)]
BelowOne = Annotated[float, Field(ge=0, lt=1)]
Speed = Annotated[float, Field(ge=0.1, le=10)]  # of a recording, relative to its own
Dropout = Annotated[float, Field(ge=0, le=0.99)]  # at 1 nothing is left to make up for the rest


def _file_name(name: str) -> str:
    if not re.fullmatch(r"[\w-][\w.-]*", name):
        raise ValueError(f"expected a name of letters, digits, . _ and -, got {name!r}")
    return name


def _some(items: Items) -> Items:
    if not items:
        raise ValueError("expected at least one, got none")
    return items


Name = Annotated[str, AfterValidator(_file_name)]  # of a file or folder as well
SOME = AfterValidator(_some)  # of a list that may not be empty
Seeds = Annotated[tuple[Count, ...], SOME]
