"""Runs every attention on a GPU that is not there, to find tensors that are left on the CPU.

torch's fake tensors have shapes and devices and no numbers: an operation on two devices fails.
"""

import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode

from cortado.model.attention.config import AttentionConfig, Kind, Score
from cortado.model.config import DecoderConfig, EncoderConfig, RecognizerConfig
from cortado.model.recognizer import Recognizer

CASES: tuple[tuple[Kind, Score], ...] = (
    *(("mocha", "additive"), ("monotonic", "general"), ("matcha", "additive")),
    *(("soft", "concat"), ("soft", "location"), ("local-m", "dot"), ("local-p", "general")),
    ("none", "additive"),
)


def moved(model: nn.Module) -> nn.Module:
    """Return the model with its tensors on the GPU; `to` cannot move fake ones."""
    for module in model.modules():
        for name, weight in module.named_parameters(recurse=False):
            module._parameters[name] = nn.Parameter(weight.detach().cuda())
        for name, buffer in module.named_buffers(recurse=False):
            module._buffers[name] = buffer.cuda()
        if isinstance(module, nn.LSTM):
            module._flat_weights = [getattr(module, name) for name in module._flat_weights_names]
    return model


def run(kind: Kind, score: Score) -> None:
    attention = AttentionConfig(8, 2, -1.0, kind, score, window=3, positions=99)
    config = RecognizerConfig(
        encoder=EncoderConfig(channels=2, width=16, layers=1),
        decoder=DecoderConfig(16, 4, attention, "luong"),
    )
    model = moved(Recognizer(config).eval())
    assert isinstance(model, Recognizer)
    lengths, targets = torch.tensor([2, 2]).cuda(), torch.zeros(2, 5, dtype=torch.long).cuda()
    encoded = model.encode_logmel(torch.randn(2, 8, 80).cuda())
    mask = model.frame_mask(lengths, encoded.shape[1])
    logits = [model.decoder.teacher_forced(encoded, mask, targets, 1.0).logits]
    logits.append(model.decoder.without_audio(targets))
    if model.decoder.online:
        logits.append(model.step(torch.randn(3, 1280).cuda(), model.initial_state(3))[0])
    assert all(one.is_cuda for one in logits)


if __name__ == "__main__":
    torch.backends.cudnn.enabled = False
    for kind, score in CASES:
        with FakeTensorMode(), torch.no_grad():
            run(kind, score)
