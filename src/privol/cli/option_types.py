"""The types of option values, beyond those of click."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

__all__ = [
    "TAB",
    "CrossType",
    "HorizonType",
    "IntervalType",
    "ReleaseType",
    "SeparatorType",
    "SetType",
    "TargetType",
    "WeightsType",
    "WorkersType",
]

TAB = "\t"

if TYPE_CHECKING:  # older releases of click have no type parameter here
    _ParamType = click.ParamType[Any]
else:
    _ParamType = click.ParamType


class ReleaseType(_ParamType):
    """last, all, an integer, or row numbers separated by commas."""

    name = "release"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if not isinstance(value, str) or value in ("last", "all"):
            return value
        try:
            rows = [int(word) for word in value.split(",")]
        except ValueError:
            self.fail(f"{value!r} is not last, all, an integer K or row numbers separated by commas", param, ctx)
        return rows if "," in value else rows[0]


class SetType(_ParamType):
    """A feasible set: l2:RADIUS, l1:RADIUS, box:LOW:HIGH, simplex:TOTAL, space (all models)."""

    name = "set"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if not isinstance(value, str):
            return value
        from ..geometry import Box, L1Ball, L2Ball, Simplex, WholeSpace

        kinds: dict[str, tuple[Callable[..., Any], int]] = {
            "l2": (lambda r: L2Ball(radius=r), 1),
            "l1": (lambda r: L1Ball(radius=r), 1),
            "box": (lambda low, high: Box(low=low, high=high), 2),
            "simplex": (lambda total: Simplex(total=total), 1),
            "space": (WholeSpace, 0),
        }
        name, *words = value.split(":")
        try:
            make, count = kinds[name]
            sizes = [float(word) for word in words]
            if len(sizes) != count:
                raise ValueError
        except (KeyError, ValueError):
            self.fail(f"{value!r} is not l2:RADIUS, l1:RADIUS, box:LOW:HIGH, simplex:TOTAL or space", param, ctx)
        return make(*sizes)


class TargetType(_ParamType):
    """A column's name, or its 0-based number (negative from the end)."""

    name = "column"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if isinstance(value, str):
            try:
                return int(value)
            except ValueError:
                return value
        return value


class CrossType(_ParamType):
    """Names of two columns, separated by a comma."""

    name = "columns"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if not isinstance(value, str):
            return value
        names = tuple(name.strip() for name in value.split(","))
        if len(names) != 2 or "" in names:
            self.fail(f"{value!r} is not A,B: the names of two columns", param, ctx)
        return names


class HorizonType(_ParamType):
    """A number of rows, or the word auto."""

    name = "rows"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if not isinstance(value, str) or value == "auto":
            return value
        try:
            return int(value)
        except ValueError:
            self.fail(f"{value!r} is not auto or a number of rows", param, ctx)


class SeparatorType(_ParamType):
    """One character, or the word tab."""

    name = "separator"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        return TAB if value in ("tab", "\\t") else value


class IntervalType(_ParamType):
    """Two numbers: LOW:HIGH."""

    name = "interval"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if not isinstance(value, str):
            return value
        try:
            low, high = (float(word) for word in value.split(":"))
        except ValueError:
            self.fail(f"{value!r} is not LOW:HIGH", param, ctx)
        return low, high


class WeightsType(_ParamType):
    """Class weights: LABEL=WEIGHT, separated by commas."""

    name = "weights"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if not isinstance(value, str):
            return value
        found: dict[str, float] = {}
        for word in value.split(","):
            label, equals, weight = (part.strip() for part in word.rpartition("="))
            if label in found:
                self.fail(f"{label!r} is there twice", param, ctx)
            try:
                found[label] = float(weight)
            except ValueError:
                equals = ""
            if not equals:
                self.fail(f"{word!r} is not LABEL=WEIGHT", param, ctx)
        return found


class WorkersType(_ParamType):
    """A number of threads, mpi, or the URL of a Dask scheduler."""

    name = "workers"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if value != "mpi" and "://" not in value and not (value.isdecimal() and int(value) > 0):
            self.fail(f"{value!r} is not a number of threads, mpi, or a URL such as tls://scheduler:8786", param, ctx)
        return value
