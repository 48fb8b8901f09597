"""Code that worker processes run: importable by name, so that any start method finds it."""

from __future__ import annotations

import numpy as np

from privol import PIGD
from privol.errors import SourceFailure
from privol.noise import BitGenerator, Gaussian


def draw(noise):
    """A few words of a source of noise, NumPy's generators included."""
    return noise.sample(8).tobytes() if isinstance(noise, Gaussian) else noise.bytes(32)


def fresh(_):
    """Draws from sources made here."""
    return draw(Gaussian(scale=1.0)), draw(np.random.Generator(BitGenerator()))


def fit(learner, X, y):
    """The released model of a new run of a learner from elsewhere."""
    return learner.fit(X, y).coef_.tobytes()


def running(**parameters):
    """A learner in the middle of its run."""
    learner = PIGD(**{"epsilon": 1.0, "horizon": 1000, "release": "all"} | parameters)
    return learner.partial_fit(np.ones((3, 2)), [0, 1, 0], classes=[0, 1])


def refusals(actions):
    """How many of the actions are refused because this process is a fork."""
    refused = 0
    for action in actions:
        try:
            action()
        except SourceFailure as error:
            refused += "forked" in str(error)
        except BaseException:
            pass
    return refused


def actions_of(learner, noise, bits):
    """Everything that would draw noise or copy a key."""
    rng = np.random.Generator(bits)
    return [
        lambda: learner.learn_one(np.ones(2), 1),
        lambda: learner.partial_fit(np.ones((2, 2)), [0, 1]),
        lambda: learner._run.state.secret_arrays(),
        lambda: noise.sample(3),
        lambda: noise.source.words(stream=0, level=0, block=0, row=0),
        lambda: bits.random_raw(),
        lambda: rng.normal(),
        lambda: rng.shuffle(np.arange(5)),
        lambda: np.random.RandomState(bits).randn(),
    ]


def count_refusals(connection, learner, noise, bits):
    connection.send(refusals(actions_of(learner, noise, bits)))
    connection.close()
