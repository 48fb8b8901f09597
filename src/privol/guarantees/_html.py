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


# Fitted attributes that may be shown with a guarantee; others may be counted on the raw rows.
_SHOWN = frozenset(
    {
        "average_coef_",
        "average_intercept_",
        "classes_",
        "coef_",
        "feature_names_in_",
        "guarantee_",
        "intercept_",
        "n_features_in_",
        "n_releases_",
        "n_rows_",
    }
)


class ShowsGuarantee:
    """Mixin of estimators, before scikit-learn's base: where that shows HTML, the guarantee stands below it.

    Of a run that has begun, which is what ``guarantee_`` says. Reading it releases nothing and costs nothing. What is
    counted on the raw rows, as ``n_scaled_rows_``, is not among the fitted attributes that are shown.
    """

    def _get_fitted_attr_html(self, doc_link: str = "") -> Any:
        found = super()._get_fitted_attr_html(doc_link)  # type: ignore[misc]  # by scikit-learn 1.9 and younger alone
        for name in set(found) - _SHOWN:
            del found[name]
        return found

    def _guarantee_html(self) -> str:
        guarantee = getattr(self, "guarantee_", None)  # an AttributeError, or a NotFittedError: no run has begun
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
