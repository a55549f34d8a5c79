"""A CTC head for phones on an encoder layer, used in training only; checkpoints lack it."""

from collections.abc import Iterator
from contextlib import contextmanager

from torch import Tensor, nn

from cortado.model.features.framing import FRAMES_PER_STEP
from cortado.model.recognizer import Recognizer
from cortado.training.data.batches import Batch
from cortado.training.data.pronounce import PHONES
from cortado.training.learning.device import ctc_loss


class PhoneHead(nn.Module):
    """CTC over phones on the output of a recurrent layer, counted from 1."""

    def __init__(self, width: int, layer: int) -> None:
        super().__init__()
        self.layer = layer
        self.output = nn.Linear(width, len(PHONES) + 1)

    @contextmanager
    def listening(self, recognizer: Recognizer) -> Iterator[list[Tensor]]:
        """Note what the layer says within the context, one (B, T', H) for each time it is asked."""
        heard: list[Tensor] = []

        def note(_: nn.Module, __: object, said: Tensor) -> None:
            heard.append(said)

        handle = recognizer.encoder.layers[self.layer - 1].register_forward_hook(note)
        try:
            yield heard
        finally:
            handle.remove()

    def loss(self, heard: Tensor, batch: Batch) -> Tensor:
        """Return the CTC loss per phone; utterances without phones count nothing.

        Args:
            heard: (B, T', H) of the layer, which may have several frames for each of the encoder's.
            batch: its phones.

        Raises:
            ValueError: it has none.
        """
        if batch.phones is None:
            raise ValueError("expected a batch with phones, got one without")
        targets, counts = batch.phones
        rate = heard.shape[1] * FRAMES_PER_STEP // batch.logmel.shape[1]
        log_probs = self.output(heard.float()).log_softmax(2).transpose(0, 1)
        each = ctc_loss(
            log_probs,
            targets,
            batch.lengths * rate,
            counts,
            len(PHONES),
            "none",
            zero_infinity=True,
        )
        return each.where(counts > 0, 0).sum() / counts.sum().clamp(min=1)
