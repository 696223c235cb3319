"""Trains a sample network: plain SGD with momentum in float64, one thread, seeded.

SGD and not Adam: dividing by a root of near-zero squares would blow last-digit noise up to the size
of a step, and the weights would no longer be the same on another processor.
"""

import numpy as np
import torch
from torch.nn import functional as F

from samples.digits import Digits
from samples.network import Network, Values, forward, initial, rounded

BATCH = 48
MOMENTUM = 0.9


def trained(network: Network, data: Digits) -> Values:
    """The network's weights after training on `data`, rounded to the grid."""
    weights = initial(network)
    learned = [w.requires_grad_() for name, w in weights.items() if not name.endswith(("_mean", "_var"))]
    optimizer = torch.optim.SGD(learned, lr=network.rate, momentum=MOMENTUM)
    steps = -(-len(data.labels) // BATCH) * network.epochs
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 1 - step / steps)
    random = np.random.RandomState(network.seed)
    for _ in range(network.epochs):
        order = random.permutation(len(data.labels))
        for start in range(0, len(order), BATCH):
            _step(network, weights, data, order[start : start + BATCH], optimizer)
            schedule.step()
    return rounded(weights)


def _step(network: Network, weights: Values, data: Digits, pick: np.ndarray, optimizer: torch.optim.SGD) -> None:
    batch = Digits(data.images[pick], data.labels[pick])
    logits = forward(network, weights, feed(network, batch), training=True)["fc"]
    optimizer.zero_grad()
    F.cross_entropy(logits, torch.from_numpy(batch.labels)).backward()
    torch.nn.utils.clip_grad_norm_(optimizer.param_groups[0]["params"], 1.0)
    optimizer.step()


def feed(network: Network, data: Digits) -> torch.Tensor:
    """The network's input for these digits, in float64."""
    return torch.from_numpy(inputs(network, data).astype(np.float64))


def inputs(network: Network, data: Digits) -> np.ndarray:
    """The network's input for these digits, in float32."""
    return data.rows() if network.input == "rows" else data.images
