"""A user's device as a ClientApp."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from numpy.typing import ArrayLike

from ..errors import InvalidParameter
from ..rounds import KeptDevice
from ._contents import RowFailure, content_of, flwr_app, guarded, record_of

__all__ = ["ACTION", "device_app"]

#: What the messages of rounds with devices are for: Flower routes them by it.
ACTION = "report"


def device_app(
    device: Callable[[Any], KeptDevice],
    row: Callable[[Any, int], tuple[ArrayLike, float]],
    *,
    failed: Callable[[Exception], object] | None = None,
) -> Any:
    """Return a ClientApp that answers a learner's questions as a user's device.

    Its replies have one record, with the answer of the device: the randomized report, the round that it is for, and
    nothing else. What it refuses it replies to with an error (code 7100).

    Parameters
    ----------
    device : callable
        ``device(context)`` returns the device of this node, with its owner's limits. Its directory belongs to the node:
        Flower's ``context.state`` is lost with its process, and is not kept until after the reply has left.
    row : callable
        ``row(context, n)`` returns the features and the target of report n, from 0 on, as :meth:`KeptDevice.answer`
        says. If it raises, the server is told that there is no row and not why; a row of NaN tells nothing.
    failed : callable, optional
        Called on the device with every exception, such as a function that writes them where the owner alone reads.
        Default: nobody sees them, as Flower's log would send their words to the server.

    Returns
    -------
    flwr.clientapp.ClientApp

    Raises
    ------
    StateError
        If Flower is not installed.

    Notes
    -----
    The server delivers the code of an app to the SuperNodes, so whoever may start runs decides what is done with rows:
    a SuperNode must run only apps that its owner has signed or reviewed (``--trusted-entities``). How long an answer
    takes is visible to the server.
    """
    flwr_app()
    from flwr.clientapp import ClientApp

    def answer(message: Any, context: Any) -> Any:
        (question,) = record_of(message, "question")
        mine = device(context)
        if not isinstance(mine, KeptDevice):
            raise InvalidParameter(f"device must return a KeptDevice, found a {type(mine).__name__}")

        def read(number: int) -> tuple[ArrayLike, float]:
            try:
                return row(context, number)
            except Exception as error:
                raise RowFailure from error

        return content_of(answer=mine.answer(question, read))

    app = ClientApp()
    app.query(ACTION)(guarded(answer, failed))
    return app
