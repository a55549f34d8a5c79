"""The cores that processes share out."""

import math
import os
import subprocess
import sys
from pathlib import Path

import pytest

from cortado.model.cores import cpu_quota

ON_ONE_CORE = """
import os
from cortado.model.cores import usable_cores
os.sched_setaffinity(0, [min(os.sched_getaffinity(0))])
print(usable_cores())
"""


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="cores cannot be taken away here")
def test_only_cores_that_a_process_may_use_are_counted() -> None:
    assert subprocess.check_output([sys.executable, "-c", ON_ONE_CORE], text=True) == "1\n"


@pytest.mark.parametrize(
    ("own", "quotas", "cores"),
    [
        ("0::/\n", {"": "250000 100000"}, 2.5),  # of a container, which sees its own group alone
        ("0::/\n", {"": "max 100000"}, math.inf),
        ("0::/\n", {}, math.inf),  # version 1
        ("1:cpu:/a\n0::/system/cortado.service\n", {"system": "400000 100000"}, 4),
        (
            "0::/system/cortado.service\n",
            {"system": "400000 100000", "system/cortado.service": "100000 100000"},
            1,
        ),
    ],
)
def test_the_least_quota_of_the_groups_around_a_process_counts(
    tmp_path: Path, own: str, quotas: dict[str, str], cores: float
) -> None:
    (tmp_path / "own").write_text(own)
    for name, quota in quotas.items():
        (tmp_path / "groups" / name).mkdir(parents=True, exist_ok=True)
        (tmp_path / "groups" / name / "cpu.max").write_text(f"{quota}\n")
    assert cpu_quota(tmp_path / "own", tmp_path / "groups") == cores
