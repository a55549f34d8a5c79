"""A process that keeps its memory takes no new pages for what it allocates again."""

import platform
import subprocess
import sys

import pytest

SCRIPT = """
import resource, sys
import torch
from cortado.training.learning.allocator import keep_freed_memory

if sys.argv[1] == "keep":
    assert keep_freed_memory()
for round in range(2):
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(20):
        torch.ones(2**24)  # 64 MB
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


def faults(how: str) -> int:
    """Return the pages that a process takes for 20 blocks, one after another, after 20 others."""
    told = subprocess.run(
        [sys.executable, "-c", SCRIPT, how], capture_output=True, text=True, timeout=120, check=True
    )
    return int(told.stdout)


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="no glibc")
def test_freed_memory_is_used_again() -> None:
    assert faults("keep") < 100 < faults("leave")
