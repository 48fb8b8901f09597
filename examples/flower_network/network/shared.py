"""What all nodes and the server have to agree on: public."""

from privol import DOLA

FEATURES, CLASSES = 4, ("no", "yes")


def learner(seed=None):
    """Three hospitals with 400 rows each, in two rounds of half of them."""
    return DOLA(epsilon=1.0, nodes=3, topology="ring", batch=200, radius=5.0, horizon=1200, random_state=seed)
