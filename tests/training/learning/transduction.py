"""A small task that is learnt in seconds: frames to symbols that repeat, stretch and delete.

Each letter of a string is heard for three or four frames, and no letter twice. The text repeats
some of the letters, leaves one out, and writes the others once.
"""

from typing import Literal

import torch
from torch import Tensor, nn

from cortado.model.attention import AttentionConfig
from cortado.model.config import DecoderConfig, EncoderConfig, RecognizerConfig
from cortado.model.recognizer import Recognizer
from cortado.model.search.offline import Mode, decode
from cortado.model.vocabulary import Vocabulary
from cortado.training.data.batches import Batch
from cortado.training.learning.losses import losses
from cortado.training.learning.stage import Stage

Kind = Literal["bahdanau", "luong", "ctc"]
LETTERS = "abcde"
WRITTEN = {"a": "a", "b": "bb", "c": "", "d": "d", "e": "ee"}
LONGEST = 3  # letters
FLUSH = 2  # silent frames at the end, as in serving
WIDTH = 32
STAGE = Stage("all", 1, ctc=1.0, attention=1.0, stop=0.5, eagerness=2.0, quantity=0.1)


class Listener(Recognizer):
    """A recogniser of the configuration whose encoder is one LSTM over the letters' frames."""

    def __init__(self, decoder: DecoderConfig) -> None:
        encoder = EncoderConfig(channels=1, width=WIDTH, layers=1)
        super().__init__(RecognizerConfig(Vocabulary(LETTERS), encoder, decoder))
        del self.encoder
        self.layer_outputs = nn.LSTM(len(LETTERS), WIDTH, batch_first=True)

    def encode_logmel(self, logmel: Tensor) -> Tensor:
        encoded: Tensor = self.layer_outputs(logmel)[0]
        return encoded


def listener(attention: AttentionConfig, kind: Kind) -> Listener:
    torch.manual_seed(0)
    return Listener(DecoderConfig(WIDTH, 8, attention, kind))


def heard(count: int, random: torch.Generator) -> Batch:
    """Return utterances of one to LONGEST letters."""

    def draw(below: int) -> int:
        return int(torch.randint(below, (), generator=random))

    frames, targets = [], []
    for _ in range(count):
        letters = torch.randperm(len(LETTERS), generator=random)[: 1 + draw(LONGEST)].tolist()
        stretched = [letter for letter in letters for _ in range(3 + draw(2))]
        frames.append(nn.functional.one_hot(torch.tensor(stretched), len(LETTERS)).float())
        frames[-1] = nn.functional.pad(frames[-1], (0, 0, 0, FLUSH))
        text = "".join(WRITTEN[LETTERS[letter]] for letter in letters)
        targets.append(torch.tensor(Vocabulary(LETTERS).encode(text), dtype=torch.long))
    return Batch(
        nn.utils.rnn.pad_sequence(frames, batch_first=True),
        torch.tensor([len(one) for one in frames]),
        nn.utils.rnn.pad_sequence(targets, batch_first=True),
        torch.tensor([len(one) for one in targets]),
    )


def errors(model: Listener, batch: Batch, mode: Mode) -> int:
    """Return how many utterances are not written exactly."""
    model.eval()
    with torch.no_grad():
        encoded = model.encode_logmel(batch.logmel)
    generator = torch.Generator().manual_seed(0) if mode == "sampled" else None
    wrong = 0
    found = decode(model, encoded, batch.lengths, mode, generator)
    for symbols, target, count in zip(found, batch.targets, batch.target_lengths, strict=True):
        wrong += [one.symbol for one in symbols] != target[:count].tolist()
    return wrong


def learn(model: Listener, mode: Mode, updates: int = 800) -> int:
    """Train until nothing is wrong in two hundred new utterances; return what is wrong at last."""
    random = torch.Generator().manual_seed(1)
    optimizer = torch.optim.Adam(model.parameters(), 8e-3)
    for update in range(1, updates + 1):
        model.train()
        for group in optimizer.param_groups:
            group["lr"] = 8e-3 * (1 - update / updates)
        optimizer.zero_grad()
        losses(model, heard(32, random), STAGE)["total"].backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        if update % 50 == 0 and not errors(model, heard(200, random), mode):
            return 0
    return errors(model, heard(200, random), mode)
