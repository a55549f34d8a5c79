"""Compiled kernels of the custom operations: importing this package registers them."""

import importlib.util

import torch

from cortado.model.compiled.operations import alignment as alignment
from cortado.model.compiled.operations import chunk as chunk
from cortado.model.compiled.operations import conv_lstm as conv_lstm
from cortado.model.compiled.operations import conv_lstm_dense as conv_lstm_dense
from cortado.model.compiled.operations import energy as energy
from cortado.model.compiled.operations import lstm as lstm
from cortado.model.compiled.operations import running_mean as running_mean
from cortado.model.compiled.operations import span as span

if torch.cuda.is_available() and importlib.util.find_spec("triton"):
    from cortado.model.compiled.operations import cuda as cuda
