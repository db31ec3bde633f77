"""Who reports when: spreading over epochs and sampling of devices, drawn by the device secret.

With `every = L` a device reports in one epoch of each block of L, so that each epoch is an unbiased
sample of devices for years. Blocks are counted from the fixed first epoch, not from install or
`starts`, and the epoch in them follows from secret, metric name and block alone. With `sample` a
device takes part at all with that probability; the draw depends on the metric's name only, so a
higher rate keeps every device that a lower one had.
"""

from client_sdk.metric import Metric
from client_sdk.randomness import Coin, PrfStream


def takes_part(secret: bytes, metric: Metric) -> bool:
    """Say whether a device is in the metric's sample, for as long as the rate does not fall."""
    stream = PrfStream(secret, b"sample", metric.name.encode())
    return Coin(stream).bernoulli(metric.sample_threshold)


def is_turn(secret: bytes, metric: Metric, epoch: int) -> bool:
    """Say whether a device reports in this epoch of its block."""
    if metric.every == 1:
        return True
    block = metric.block_of(epoch)
    context = (metric.name, str(metric.every), str(block))
    stream = PrfStream(secret, b"turn", *(part.encode() for part in context))
    return epoch - block * metric.every == Coin(stream).uniform(metric.every)
