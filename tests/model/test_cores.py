"""The cores that processes share out."""

import os
import subprocess
import sys

import pytest

ON_ONE_CORE = """
import os
from cortado.model.cores import usable_cores
os.sched_setaffinity(0, [min(os.sched_getaffinity(0))])
print(usable_cores())
"""


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="cores cannot be taken away here")
def test_only_cores_that_a_process_may_use_are_counted() -> None:
    assert subprocess.check_output([sys.executable, "-c", ON_ONE_CORE], text=True) == "1\n"
