"""Initial weights that a recipe asks for."""

import pytest
import torch

from cortado.model.recognizer import Recognizer
from cortado.tests.training.tiny import MODEL
from cortado.training.learning.recipe import Initialisation
from cortado.training.learning.start import initialise


def test_matrices_and_filters_of_the_encoder_and_embeddings_are_drawn_as_asked() -> None:
    model = Recognizer(MODEL)
    before = {name: value.detach().clone() for name, value in model.named_parameters()}
    initialise(model, Initialisation(encoder=0.1, embedding=0.5))
    after = {name: value.detach() for name, value in model.named_parameters()}
    changed = {name for name in before if not torch.equal(before[name], after[name])}
    matrices = {name for name in before if name.startswith("encoder.") and before[name].dim() > 1}
    assert "encoder.conv_lstm.recurrent" in matrices
    assert changed == matrices | {"decoder.embedding.weight"}
    drawn = torch.cat([after[name].flatten() for name in matrices])
    assert float(drawn.abs().max()) <= 0.2
    # the deviation of a normal distribution that is cut off at two of its own
    assert float(drawn.std()) == pytest.approx(0.088, rel=0.05)
    embedded = after["decoder.embedding.weight"]
    assert 0.45 < float(embedded.abs().max()) <= 0.5


def test_nothing_is_drawn_anew_that_is_not_asked_for() -> None:
    model = Recognizer(MODEL)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    initialise(model, Initialisation())
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
