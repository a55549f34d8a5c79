"""Compiled kernels of the custom operations: importing this package registers them."""

from cortado.model.compiled.operations import conv_lstm as conv_lstm
from cortado.model.compiled.operations import lstm as lstm
from cortado.model.compiled.operations import running_mean as running_mean
