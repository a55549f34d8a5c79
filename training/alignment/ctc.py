"""The best path of a CTC head that writes a known text."""

import torch
import torchaudio
from torch import Tensor


def last_frames(log_probs: Tensor, symbols: Tensor) -> Tensor | None:
    """Return the last frame (U,) of each symbol on the best path; None if they do not fit.

    Args:
        log_probs: (T, V + 1) of one utterance on a CPU, the blank last.
        symbols: (U,) of its text.
    """
    repeats = int((symbols[1:] == symbols[:-1]).sum())
    if not len(symbols) or len(symbols) + repeats > len(log_probs):
        return None
    blank = log_probs.shape[1] - 1
    path, _ = torchaudio.functional.forced_align(
        log_probs[None].contiguous(), symbols[None], blank=blank
    )
    following = torch.nn.functional.pad(path[0, 1:], (0, 1), value=-1)
    return ((path[0] != blank) & (path[0] != following)).nonzero()[:, 0]
