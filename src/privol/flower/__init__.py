"""Devices, nodes and learners as apps of Flower, which carries their messages.

Rounds with devices: a ClientApp (:func:`device_app`) is a user's device. It sees the row, and answers with a randomized
report. A ServerApp (:func:`learner_app`, or one of your own around :func:`play_rounds`) is the learner. What leaves a
client is the answer of :mod:`privol.rounds` and nothing else.

Networks: a ClientApp (:func:`node_app`) is a node of :class:`privol.DOLA` or :class:`privol.SparseDOLA`, with its rows
and its noise. A ServerApp (:func:`network_app`, or :func:`relay`) carries what the nodes send to their neighbours.

So the guarantees hold against the server, the SuperLink and whoever reads the traffic. Flower is the transport: no
guarantee rests on it. It is installed by ``pip install 'privol[flower]'``. See ``docs/flower.md``.
"""

from ._devices import device_app
from ._kept_node import KeptNode, Network, node_app
from ._relay import NetworkModel, network_app, relay
from ._rounds import Played, learner_app, play_rounds

__all__ = [
    "KeptNode",
    "Network",
    "NetworkModel",
    "Played",
    "device_app",
    "learner_app",
    "network_app",
    "node_app",
    "play_rounds",
    "relay",
]
