"""Devices and learners as apps of Flower, which carries their messages.

A ClientApp (:func:`device_app`) is a user's device: it sees the row, and answers with a randomized report. A ServerApp
(:func:`learner_app`, or one of your own around :func:`play_rounds`) is the learner. What leaves a client is the answer
of :mod:`privol.rounds` and nothing else, so the guarantee holds against the server, the SuperLink and whoever reads the
traffic. Flower is the transport: no guarantee rests on it.

Flower is installed by ``pip install 'privol[flower]'``. See ``docs/flower.md``.
"""

from ._devices import device_app
from ._rounds import Played, learner_app, play_rounds

__all__ = ["Played", "device_app", "learner_app", "play_rounds"]
