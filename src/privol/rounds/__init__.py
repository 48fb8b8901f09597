"""Rounds between a learner and its users' devices: questions, answers, and what each side refuses.

A learner on reports (:class:`privol.LDPSGD`, :class:`privol.MultiscaleSGD`, ...) needs a gradient at its point, while
the row stays on the user's device. So a round has two messages: the learner's question holds the point and the terms
(loss, bounds, randomizer); the device's answer is a report. :class:`Collector` is the learner's side, :class:`Device`
the user's. Neither trusts the other: a device makes no report with less noise than its owner demands, whatever the
terms say, and a learner learns nothing from a message that is not a possible report of the open round. Joined together,
the two equal the estimator, bit for bit. :class:`KeptDevice` is a device whose reports are counted on the disk: it
answers one question once, in whatever process it is asked.

Messages are bytes, whatever transports them; :func:`receive_question` and :func:`receive_answer` read them from a
socket. They are neither encrypted nor signed: that is the transport's task (TLS). Their layout is in
``docs/rounds.md``.
"""

from ._collector import Collector
from ._device import Device
from ._kept_device import KeptDevice
from ._messages import VERSION
from ._sockets import receive_answer, receive_question

__all__ = ["VERSION", "Collector", "Device", "KeptDevice", "receive_answer", "receive_question"]
