"""A miniature recogniser learns to write digit strings that it has not heard, in a minute.

The voice is made up (`tests/training/digits.py`), so that the bound means the same on every
machine; everything else is what real speech goes through, from the recording to the stream.
"""

from pathlib import Path

import numpy as np
import pytest
import torch

from cortado.model import checkpoint
from cortado.model.backends.choice import choose
from cortado.model.recognizer import Recognizer
from cortado.model.streaming.recordings import transcribe_many
from cortado.tests.training.digits import DIGITS, MODEL, corpus, recipe, strings
from cortado.training.data.manifest import Utterance, read
from cortado.training.data.recordings import samples_of
from cortado.training.learning import device
from cortado.training.learning.run import train
from cortado.training.scoring.error_rates import score

HEARD, HELD_OUT = 300, 60  # strings
BOUND = 0.15  # CER; more than one digit in seven is no recogniser


def character_error_rate(recognizer: Recognizer, utterances: list[Utterance]) -> float:
    """Return that of the streaming recogniser, greedy."""
    online = choose(recognizer, "reference")
    heard = dict(transcribe_many(online, map(samples_of, utterances)))
    texts = ["".join(one.text for one in heard[k]) for k in range(len(utterances))]
    pairs = [(one.text, text) for one, text in zip(utterances, texts, strict=True)]
    return score(pairs, [one.speaker for one in utterances], unit="char").cer


@pytest.mark.slow
@pytest.mark.timeout(1800)  # of the clock, for a machine that is busy
def test_a_recogniser_from_scratch_writes_digit_strings_that_it_has_not_heard(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Where bf16 is faster it is used, and so small a network at so high a rate ends anywhere.
    monkeypatch.setattr(device, "bf16_is_faster", lambda: False)
    random = np.random.default_rng(1)
    known = strings(HEARD, random)
    new = [text for text in strings(2 * HELD_OUT, random) if text not in known][:HELD_OUT]
    manifest = corpus(tmp_path, known, "heard", random)
    held_out = read(corpus(tmp_path, new, "held-out", random), DIGITS)
    torch.manual_seed(0)
    assert character_error_rate(Recognizer(MODEL).eval(), held_out) > 0.8
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        folder = train(recipe(manifest), tmp_path / "run")
        assert character_error_rate(checkpoint.load(folder), held_out) < BOUND
    finally:
        torch.set_num_threads(threads)
