"""Arrival times: when the audio of each step of S streams was complete."""

import numpy as np
from numpy.typing import NDArray

from cortado.model.arrays import Rows


class Arrivals:
    """The times of the last steps of each row."""

    def __init__(self, rows: int, steps: int) -> None:
        """Make room for the times of `steps` steps that wait in each row."""
        self._times = np.zeros((rows, steps))  # memory from their first use on

    def stamp(self, row: int, steps: range, now: float) -> None:
        """Note that steps of a row are complete `now`."""
        size = self._times.shape[1]
        for step in steps:
            self._times[row, step % size] = now

    def of(self, rows: Rows, steps: Rows) -> NDArray[np.float64]:
        """Return (R,) when the (R,) steps of rows were complete."""
        return self._times[rows, steps % self._times.shape[1]]
