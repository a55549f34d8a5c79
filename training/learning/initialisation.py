"""Initial weights as a paper has them, where PyTorch's are others."""

from torch import nn

from cortado.model.recognizer import Recognizer
from cortado.training.learning.recipe import Initialisation

CUT = 2  # deviations at which a normal distribution is cut off, as TensorFlow does


def initialise(model: Recognizer, wanted: Initialisation) -> None:
    """Draw a recogniser's initial weights anew where a recipe says how; biases stay."""
    if wanted.encoder is not None:
        bound = CUT * wanted.encoder
        for weight in model.encoder.parameters():
            if weight.dim() > 1:
                nn.init.trunc_normal_(weight, 0.0, wanted.encoder, -bound, bound)
    if wanted.embedding is not None:
        for module in model.modules():
            if isinstance(module, nn.Embedding):
                nn.init.uniform_(module.weight, -wanted.embedding, wanted.embedding)
