"""Snapshots of a run on disk, from which it resumes after a kill at any instant.

A snapshot is a folder. It is written under another name and renamed when complete; the last two
remain.
"""

import json
import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from safetensors.torch import save as serialized
from torch import Tensor, nn

from cortado.model.config_reader import json_tree
from cortado.model.whole_file import write_whole

STATE, TENSORS = "state.json", "tensors.safetensors"


def snapshots(folder: Path) -> list[Path]:
    """Return a run's snapshots, oldest first."""
    return sorted(folder.glob("snapshot-????????"))


def save(
    folder: Path,
    step: int,
    modules: Mapping[str, nn.Module],
    optimizers: Mapping[str, torch.optim.Optimizer],
    extra: dict[str, Any],
) -> None:
    """Write a snapshot of the modules, the optimisers' moments and the position in the run."""
    tensors = {
        f"{prefix}/{name}": tensor.contiguous()
        for prefix, module in modules.items()
        for name, tensor in module.state_dict().items()
    }
    for prefix, optimizer in optimizers.items():
        for index, values in optimizer.state_dict()["state"].items():
            tensors |= {f"{prefix}/{index}/{name}": value for name, value in values.items()}
    final = folder / f"snapshot-{step:08d}"
    partial = folder / "snapshot.partial"
    shutil.rmtree(partial, ignore_errors=True)
    write_whole(partial / TENSORS, serialized(tensors))
    write_whole(partial / STATE, json.dumps({"step": step} | extra))
    shutil.rmtree(final, ignore_errors=True)
    os.replace(partial, final)
    for old in snapshots(folder)[:-2]:
        shutil.rmtree(old)


def restore(
    snapshot: Path,
    modules: Mapping[str, nn.Module],
    optimizers: Mapping[str, torch.optim.Optimizer],
) -> dict[str, Any]:
    """Put a snapshot back into the modules and the optimisers; return its position in the run.

    A module that the snapshot lacks stays as it is. One that is only in the snapshot is ignored,
    with its moments.

    Raises: ValueError where the snapshot is damaged, or of other modules.
    """
    try:
        tensors = load_file(snapshot / TENSORS)
    except SafetensorError as error:
        path = snapshot / TENSORS
        raise ValueError(
            f"expected a whole {path}, got {error}; without {snapshot} the run goes on from the "
            "snapshot before it"
        ) from error
    parts: dict[str, dict[str, Tensor]] = {}
    for name, tensor in tensors.items():
        prefix, rest = name.split("/", 1)
        parts.setdefault(prefix, {})[rest] = tensor
    for prefix, module in modules.items():
        if prefix in parts:
            try:
                module.load_state_dict(parts[prefix])
            except RuntimeError as error:
                wrong = " ".join(str(error).split())
                raise ValueError(f"expected {snapshot} to be of this model, got {wrong}") from error
    for prefix, optimizer in optimizers.items():
        _restore_moments(optimizer, parts.get(prefix, {}))
    return read(snapshot)


def _restore_moments(optimizer: torch.optim.Optimizer, tensors: Mapping[str, Tensor]) -> None:
    moments: dict[int, dict[str, Tensor]] = {}
    for name, tensor in tensors.items():
        index, moment = name.split("/")
        moments.setdefault(int(index), {})[moment] = tensor
    groups = optimizer.state_dict()["param_groups"]
    known = {index for group in groups for index in group["params"]}
    state = {index: values for index, values in moments.items() if index in known}
    optimizer.load_state_dict({"state": state, "param_groups": groups})


def read(snapshot: Path) -> dict[str, Any]:
    """Return a snapshot's position in its run: updates ("step"), their "seconds", and more."""
    state: dict[str, Any] = json_tree(snapshot / STATE)
    return state
