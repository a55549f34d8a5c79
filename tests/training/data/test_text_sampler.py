from pathlib import Path

import pytest
import torch
from torch import Tensor
from torch.nn.functional import cosine_similarity

from cortado.model.config import DecoderConfig, RecognizerConfig
from cortado.model.recognizer import Recognizer
from cortado.model.vocabulary import Vocabulary
from cortado.training.data.text_sampler import PIECE, TextSampler
from cortado.training.learning.losses import text_loss

VOCABULARY = Vocabulary()
CONFIG = RecognizerConfig(decoder=DecoderConfig(width=64))


@pytest.fixture
def text(tmp_path: Path) -> Path:
    path = tmp_path / "text.txt"
    path.write_text("it was good\n\nthe quick brown fox " * 3 + "\n", encoding="utf-8")
    return path


def test_a_piece_begins_at_a_word_and_is_a_function_of_its_number(text: Path) -> None:
    sampler = TextSampler(text, VOCABULARY, 1)
    symbols, lengths = sampler.batch(3)
    assert symbols.shape[1] == PIECE
    words = {"it", "was", "good", "the", "quick", "brown", "fox"}
    for row, length in zip(symbols.tolist(), lengths.tolist(), strict=True):
        assert VOCABULARY.decode(row[:length]).split()[0] in words
        assert not any(row[length:])
    again, _ = TextSampler(text, VOCABULARY, 1).batch(3)
    other, _ = sampler.batch(4)
    assert torch.equal(symbols, again)
    assert not torch.equal(symbols, other)


def test_text_that_no_vocabulary_spells_is_named_with_its_line(tmp_path: Path) -> None:
    path = tmp_path / "text.txt"
    path.write_text("fine\nnot 1 of them\n", encoding="utf-8")
    with pytest.raises(ValueError, match=r"text\.txt:2: expected characters among .*got '1'"):
        TextSampler(path, VOCABULARY, 0)
    path.write_bytes(b"fine\ncaf\xe9\n")
    with pytest.raises(ValueError, match=r"text\.txt:2: expected characters among .*got 'é'"):
        TextSampler(path, VOCABULARY, 0)
    path.write_text("\n", encoding="utf-8")
    with pytest.raises(ValueError, match="expected a sentence a line, got none"):
        TextSampler(path, VOCABULARY, 0)


def test_without_audio_is_the_decoder_with_zero_contexts() -> None:
    torch.manual_seed(0)
    recognizer = Recognizer(CONFIG)
    values = torch.zeros(2, 5, 256)
    targets = torch.randint(0, 28, (2, 7))
    heard = recognizer.decoder.teacher_forced(values, torch.ones(2, 5, dtype=torch.bool), targets)
    torch.testing.assert_close(recognizer.decoder.without_audio(targets), heard.logits)


def test_the_decoder_learns_to_spell_from_text_alone(text: Path) -> None:
    torch.manual_seed(0)
    recognizer = Recognizer(CONFIG)
    sampler = TextSampler(text, VOCABULARY, 1)
    optimizer = torch.optim.Adam(recognizer.decoder.parameters(), 3e-3)
    first = last = 0.0
    for step in range(30):
        optimizer.zero_grad()
        loss = text_loss(recognizer, *sampler.batch(step))
        loss.backward()
        optimizer.step()
        first, last = first or float(loss.detach()), float(loss.detach())
    assert first > 3.0
    assert last < 0.6 * first


@pytest.mark.parametrize(
    "config",
    [
        DecoderConfig(kind="luong", width=64),
        DecoderConfig(layers=2, width=64),
        DecoderConfig(readout="maxout", width=64),
        DecoderConfig(readout="mlp", width=64),
    ],
    ids=["luong", "layers", "maxout", "mlp"],
)
def test_every_decoder_learns_text_in_mixed_precision(text: Path, config: DecoderConfig) -> None:
    torch.manual_seed(0)
    decoder = Recognizer(RecognizerConfig(decoder=config)).decoder
    symbols, _ = TextSampler(text, VOCABULARY, 1).batch(0)

    def gradients(mixed: bool) -> Tensor:
        decoder.zero_grad()
        with torch.autocast("cpu", torch.bfloat16, enabled=mixed):
            logits = decoder.without_audio(symbols)
        logits.float().log_softmax(2).gather(2, symbols[..., None]).sum().backward()
        return torch.cat([p.grad.flatten() for p in decoder.parameters() if p.grad is not None])

    mixed, exact = gradients(True), gradients(False)
    assert cosine_similarity(mixed, exact, 0) > 0.999
    assert (mixed - exact).norm() < 0.05 * exact.norm()


def test_a_vocabulary_of_phones_has_no_sentences(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("sh iy\n")
    with pytest.raises(ValueError, match=r"expected a vocabulary of characters for .*, got phones"):
        TextSampler(tmp_path / "text", Vocabulary(phones=("sh", "iy")), 0)
