"""The device of a run (CPU, CUDA or Apple's GPU) and its precision."""

import os
import time
from functools import cache
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from cortado.model.layer import State, changed

MIXED = torch.bfloat16  # in matrix products of encoder and text; sums are float32


def device_of(name: str | None, rank: int = 0) -> torch.device:
    """Return the device of a run's process: of that name, or CUDA where there is one, or the CPU.

    Processes of one machine take its GPUs in turn.

    Raises:
        ValueError: no such device, or this machine has none.
    """
    available = {
        "cpu": True,
        "cuda": torch.cuda.is_available(),
        "mps": torch.backends.mps.is_available(),
    }
    name = name or ("cuda" if available["cuda"] else "cpu")
    if not available.get(name):
        here = ", ".join(one for one, there in available.items() if there)
        raise ValueError(f"expected a device that PyTorch has here ({here}), got {name!r}")
    if name == "cuda":
        return torch.device(name, rank % torch.cuda.device_count())
    return torch.device(name)


def mixed_precision(device: torch.device) -> torch.autocast:
    """Return the context of matrix products in bf16, without effect where float32 is faster."""
    return torch.autocast(device.type, MIXED, enabled=matmul_type(device) is MIXED)


def matmul_type(device: torch.device) -> torch.dtype:
    """Return the type whose matrix products are the fastest: bf16 or float32."""
    narrow = (device.type == "cpu" and bf16_is_faster()) or (
        device.type == "cuda" and torch.cuda.is_bf16_supported(including_emulation=False)
    )
    return MIXED if narrow else torch.float32


@cache
def bf16_is_faster() -> bool:
    """Whether this CPU multiplies bf16 faster than float32.

    It is measured, once a process: of two CPUs with the same instructions for it, one has them at
    twice float32's pace and the other at half.
    """
    took = {kind: min(map(_product_seconds, [kind] * 5)) for kind in (MIXED, torch.float32)}
    return took[MIXED] < took[torch.float32]


def _product_seconds(kind: torch.dtype) -> float:
    one = torch.ones(512, 512, dtype=kind)
    start = time.perf_counter()
    one @ one
    return time.perf_counter() - start


def make_matmuls_reproducible() -> None:
    """Let float32 products be the same wherever their factors lie in memory.

    Else a run that is resumed differs from one that is not, in the last bits. Intel's MKL reads
    this before its first product; where it is set already it stays.
    """
    os.environ.setdefault("MKL_CBWR", "AUTO,STRICT")


def to_device(batch: State, device: torch.device) -> State:
    """Return nested tuples of tensors on a device."""
    return changed(batch, lambda tensor: tensor.to(device))


def ctc_loss(log_probs: Tensor, targets: Tensor, *rest: Any, **options: Any) -> Tensor:
    """Return torch's CTC loss, computed on the CPU for Apple's GPUs, which lack it."""
    device = log_probs.device
    if device.type == "mps":
        log_probs, targets = log_probs.cpu(), targets.cpu()
        rest = tuple(x.cpu() if isinstance(x, Tensor) else x for x in rest)
    return functional.ctc_loss(log_probs, targets, *rest, **options).to(device)
