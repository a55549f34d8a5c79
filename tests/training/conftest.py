"""What holds for all tests of training."""

from cortado.training.learning.device import make_matmuls_reproducible

make_matmuls_reproducible()  # before the first product of the process, of whichever test
