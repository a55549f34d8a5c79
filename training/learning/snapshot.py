"""Snapshots of a run on disk, from which it resumes after a kill at any instant.

A snapshot is a folder, written beside and renamed when whole; the last two are kept.
"""

import json
import os
import shutil
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

STATE, TENSORS = "state.json", "tensors.safetensors"


def snapshots(folder: Path) -> list[Path]:
    """Return a run's snapshots, oldest first."""
    return sorted(folder.glob("snapshot-????????"))


def save(
    folder: Path,
    step: int,
    modules: dict[str, nn.Module],
    optimizer: torch.optim.Optimizer,
    extra: dict[str, Any],
) -> None:
    """Write a snapshot of the modules, the optimiser's moments and the position in the run."""
    tensors = {
        f"{prefix}/{name}": tensor.contiguous()
        for prefix, module in modules.items()
        for name, tensor in module.state_dict().items()
    }
    moments = optimizer.state_dict()["state"]
    for index, values in moments.items():
        tensors |= {f"optimizer/{index}/{name}": value for name, value in values.items()}
    final = folder / f"snapshot-{step:08d}"
    partial = folder / "snapshot.partial"
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir(parents=True)
    save_file(tensors, partial / TENSORS)
    (partial / STATE).write_text(json.dumps({"step": step} | extra), encoding="utf-8")
    shutil.rmtree(final, ignore_errors=True)
    os.replace(partial, final)
    for old in snapshots(folder)[:-2]:
        shutil.rmtree(old)


def restore(
    snapshot: Path, modules: dict[str, nn.Module], optimizer: torch.optim.Optimizer
) -> dict[str, Any]:
    """Put a snapshot back into the modules and the optimiser; return its position in the run.

    A module that its run had not yet begins as it is. One that it had and that is not wanted is
    left out, as are its moments, which are the last.
    """
    tensors = load_file(snapshot / TENSORS)
    parts: dict[str, dict[str, Tensor]] = {}
    for name, tensor in tensors.items():
        prefix, rest = name.split("/", 1)
        parts.setdefault(prefix, {})[rest] = tensor
    for prefix, module in modules.items():
        if prefix in parts:
            module.load_state_dict(parts[prefix])
    moments: dict[int, dict[str, Tensor]] = {}
    for name, tensor in parts.get("optimizer", {}).items():
        index, moment = name.split("/")
        moments.setdefault(int(index), {})[moment] = tensor
    # a parameter that nothing has moved yet begins as Adam begins, whatever steps were counted
    moments = {k: values for k, values in moments.items() if values["exp_avg_sq"].any()}
    groups = optimizer.state_dict()["param_groups"]
    known = {index for group in groups for index in group["params"]}
    moments = {k: values for k, values in moments.items() if k in known}
    optimizer.load_state_dict({"state": moments, "param_groups": groups})
    return read(snapshot)


def read(snapshot: Path) -> dict[str, Any]:
    """Return a snapshot's position in its run: updates ("step"), their "seconds", and more."""
    state: dict[str, Any] = json.loads((snapshot / STATE).read_text(encoding="utf-8"))
    return state
