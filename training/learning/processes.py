"""What the processes of a run share: the mean of their gradients and of their statistics."""

import torch
import torch.distributed as dist
from torch import nn


def average_gradients(model: nn.Module, processes: int) -> None:
    """Make every gradient the mean over the processes.

    A parameter that no process has a gradient of keeps none: with zeros, Adam would count updates
    for it, and its bias correction would be off. One that only some have, as a head whose targets
    a batch lacks, is zero at the others.
    """
    if processes == 1:
        return
    parameters = list(model.parameters())
    learnt = torch.tensor([float(p.grad is not None) for p in parameters])
    dist.all_reduce(learnt)
    for parameter, count in zip(parameters, learnt.tolist(), strict=True):
        if count and parameter.grad is None:
            parameter.grad = torch.zeros_like(parameter)
    gradients = [p.grad for p in parameters if p.grad is not None]
    flat = torch.cat([gradient.flatten() for gradient in gradients])
    dist.all_reduce(flat)
    flat /= processes
    for gradient, mean in zip(gradients, flat.split([g.numel() for g in gradients]), strict=True):
        gradient.copy_(mean.view_as(gradient))


def average_buffers(model: nn.Module) -> None:
    """Make the batch norms' running statistics the mean over the processes."""
    if not dist.is_initialized():
        return
    for buffer in model.buffers():
        if buffer.is_floating_point():
            dist.all_reduce(buffer)
            buffer /= dist.get_world_size()
