"""Guarantees in notebooks: as short HTML, and below the diagram that scikit-learn draws of an estimator."""

from __future__ import annotations

from collections.abc import Callable
from html import escape
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ._record import Guarantee

__all__ = ["ShowsGuarantee", "guarantee_html"]


def guarantee_html(guarantee: Guarantee) -> str:
    """Return a guarantee as HTML without script and style: its figures, and the sentence to unfold.

    Parameters
    ----------
    guarantee : Guarantee

    Returns
    -------
    str
        All text in it is escaped.
    """
    return (
        f"<p><strong>Guarantee:</strong> {escape(guarantee.summary())}</p>"
        f"<details><summary>What it says</summary><p>{escape(guarantee.sentence())}</p></details>"
    )


class ShowsGuarantee:
    """Mixin of estimators, before scikit-learn's base: where that shows HTML, the guarantee stands below it.

    Of a run that has begun, which is what ``guarantee_`` says. Reading it releases nothing and costs nothing.
    """

    def _guarantee_html(self) -> str:
        guarantee = getattr(self, "guarantee_", None)  # an AttributeError, NotFittedError too: no run has begun
        return "" if guarantee is None else guarantee_html(guarantee)

    @property
    def _repr_html_(self) -> Callable[[], str]:
        drawn: Callable[[], str] = super()._repr_html_  # type: ignore[misc]  # AttributeError: shown as text
        return lambda: drawn() + self._guarantee_html()

    def _repr_mimebundle_(self, **kwargs: Any) -> dict[str, str]:
        bundle: dict[str, str] = super()._repr_mimebundle_(**kwargs)  # type: ignore[misc]
        if "text/html" in bundle:
            bundle["text/html"] += self._guarantee_html()
        return bundle
