"""Metrics of a service for Prometheus: requests, and public numbers of the models. None of them is of raw rows."""

from __future__ import annotations

import math
from collections.abc import Iterator

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from ._live_run import Learning
from ._shelf import Shelf

__all__ = ["PublicMetrics"]

_SECONDS = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0)


class _OfModels(Collector):
    """Gauges of the models, as they are when somebody asks."""

    def __init__(self, shelf: Shelf, learning: Learning) -> None:
        self._shelf, self._learning = shelf, learning

    def collect(self) -> Iterator[Metric]:
        def gauge(name: str, about: str) -> GaugeMetricFamily:
            return GaugeMetricFamily(f"privol_{name}", about, labels=["model"])

        rows = gauge("model_rows", "Rows learnt when the served model was released.")
        releases = gauge("model_releases", "Models released by then.")
        since = gauge("model_loaded_timestamp_seconds", "When the served model was loaded, in seconds since 1970.")
        version = gauge("model_version", "Version of the served model in its registry.")
        private = gauge("model_private", "1: the model has a guarantee; 0: it is NOT PRIVATE.")
        stale = gauge("model_stale", "1: a newer model cannot be read, and the last good one is served.")
        epsilon = gauge("guarantee_epsilon", "Epsilon of the model's guarantee, at its delta.")
        delta = gauge("guarantee_delta", "Delta of the model's guarantee.")
        spent = gauge("budget_spent_epsilon", "Epsilon that its ledger had spent by then, at that delta.")
        for name, slot in self._shelf.slots.items():
            served = slot.served
            stale.add_metric([name], float(slot.problem is not None and served is not None))
            if served is None:
                continue
            rows.add_metric([name], served.rows)
            releases.add_metric([name], served.releases)
            since.add_metric([name], slot.since)
            private.add_metric([name], float(served.private))
            epsilon.add_metric([name], served.guarantee.epsilon())
            delta.add_metric([name], served.guarantee.delta)
            if served.number is not None:
                version.add_metric([name], served.number)
            if served.spent is not None and not math.isnan(served.spent[1]):
                spent.add_metric([name], served.spent[1])
        yield from (rows, releases, since, version, private, stale, epsilon, delta, spent)
        learning = GaugeMetricFamily("privol_learning", "1 for what the run does that learns here.", labels=["state"])
        for state in self._learning.STATES:
            learning.add_metric([state], float(self._learning.state == state))
        yield learning
        if (lag := self._learning.lag) is not None:
            about = "Messages at the broker behind those that were read, when it was asked last. NOT PRIVATE."
            yield GaugeMetricFamily("privol_source_lag_messages", about, lag)


class PublicMetrics:
    """What ``/metrics`` shows.

    Parameters
    ----------
    shelf : Shelf
    learning : Learning
    """

    def __init__(self, shelf: Shelf, learning: Learning) -> None:
        self._registry = CollectorRegistry()
        self._registry.register(_OfModels(shelf, learning))
        about = "Requests, by route and status."
        self._requests = Counter("privol_requests", about, ["route", "status"], registry=self._registry)
        self._rows = Counter("privol_predicted_rows", "Rows that were predicted.", registry=self._registry)
        self._seconds = Histogram(
            "privol_request_seconds",
            "Seconds from a request's headers to its answer.",
            labelnames=["route"],
            buckets=_SECONDS,
            registry=self._registry,
        )

    def answered(self, route: str, status: int, seconds: float) -> None:
        """Count a request."""
        self._requests.labels(route, str(status)).inc()
        self._seconds.labels(route).observe(seconds)

    def predicted(self, rows: int) -> None:
        """Count predicted rows."""
        self._rows.inc(rows)

    def text(self) -> bytes:
        """Return all of them in the text format of Prometheus."""
        return generate_latest(self._registry)
