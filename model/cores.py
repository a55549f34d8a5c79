"""The cores of this machine."""

import math
import os
from pathlib import Path

OWN_GROUP, GROUPS = Path("/proc/self/cgroup"), Path("/sys/fs/cgroup")


def usable_cores() -> int:
    """Return the cores that this process may use, which a container may have fewer of.

    A quota of processor time, as `docker run --cpus 2` sets, counts as so many cores, rounded up.
    """
    if hasattr(os, "sched_getaffinity"):  # not on macOS
        cores = len(os.sched_getaffinity(0))
    else:
        cores = os.cpu_count() or 1
    quota = cpu_quota() if OWN_GROUP.exists() else math.inf
    return cores if quota > cores else max(math.ceil(quota), 1)


def cpu_quota(own: Path = OWN_GROUP, groups: Path = GROUPS) -> float:
    """Return the cores that a control group and those around it may use; infinity without a quota.

    Args:
        own: file that names the groups of this process.
        groups: where control groups of version 2 are mounted.
    """
    least = math.inf
    name = own.read_text().rpartition("0::/")[2].strip()
    for group in (groups / name, *(groups / name).parents):
        try:
            quota, period = (group / "cpu.max").read_text().split()
        except OSError:
            continue  # no such file in the root of a machine, nor in groups of version 1
        if quota != "max":
            least = min(least, int(quota) / int(period))
    return least
