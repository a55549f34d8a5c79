"""Work that several processes share."""

import os

import pytest

from cortado.training.data.parallel import parallel_map


@pytest.mark.parametrize("workers", [0, 1, 2])
def test_results_come_in_the_order_of_the_items(workers: int) -> None:
    assert list(parallel_map(abs, range(-5, 5), workers, 2)) == [5, 4, 3, 2, 1, 0, 1, 2, 3, 4]


def test_a_process_that_dies_is_an_error_and_no_wait_without_end() -> None:
    with pytest.raises(OSError, match="expected 2 processes to work, got the end of one"):
        list(parallel_map(os._exit, [1, 1], 2, 1))
