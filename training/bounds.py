"""Numbers with bounds, which are checked as a file is read, not where Python makes a dataclass."""

from typing import Annotated

from pydantic import Field, NonNegativeInt

Count = NonNegativeInt
Weight = Annotated[float, Field(ge=0)]
Share = Annotated[float, Field(ge=0, le=1)]
BelowOne = Annotated[float, Field(ge=0, lt=1)]
Dropout = Annotated[float, Field(ge=0, le=0.99)]  # at 1 nothing is left to make up for the rest
