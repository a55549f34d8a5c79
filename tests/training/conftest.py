"""What holds for all tests of training."""

from cortado.training.learning.device import keep_products

keep_products()  # before the first product of the process, of whichever test
