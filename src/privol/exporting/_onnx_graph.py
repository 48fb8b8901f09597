"""A graph of ONNX that grows by one operation at a time."""

from __future__ import annotations

from collections.abc import Collection
from itertools import count
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .. import __version__
from ..errors import InvalidParameter

__all__ = ["Graph"]

#: Versions of the operators: the standard ones, those of ONNX-ML, and the hash of onnxruntime.
_OPSETS = (("", 18), ("ai.onnx.ml", 3), ("com.microsoft", 1))
_IR_VERSION = 9


class Graph:
    """Operations on float64, int64 and text; every method returns the name of its result.

    Parameters
    ----------
    names : collection of str
        Names of inputs, which no other value may have.

    Raises
    ------
    InvalidParameter
        If onnx is not installed.
    """

    def __init__(self, names: Collection[str]) -> None:
        try:
            import onnx
        except ImportError as error:
            raise InvalidParameter("ONNX needs its library: pip install 'privol[onnx]'") from error
        self._onnx: Any = onnx
        self._names, self._numbers = frozenset(names), count()
        self._nodes: list[Any] = []
        self._constants: dict[str, Any] = {}
        self._inputs: list[Any] = []
        self._outputs: list[Any] = []

    def _free(self, name: str) -> str:
        while name in self._names:
            name += "_"
        return name

    # ---- ends ------------------------------------------------------------------------------------------

    def input(self, name: str, width: int, *, text: bool = False) -> str:
        """Add an input of shape (n, width)."""
        kind = self._onnx.TensorProto.STRING if text else self._onnx.TensorProto.DOUBLE
        self._inputs.append(self._onnx.helper.make_tensor_value_info(name, kind, ["n", width]))
        return name

    def output(self, name: str, value: str, like: NDArray[Any], width: int | None = None) -> None:
        """Call a value an output, of the type of an array; its shape is (n,), or (n, width)."""
        name = self._free(name)
        self._nodes.append(self._onnx.helper.make_node("Identity", [value], [name]))
        shape = ["n"] if width is None else ["n", width]
        kind = self._onnx.TensorProto.STRING if like.dtype.kind in "OU" else self._type(like.dtype)
        self._outputs.append(self._onnx.helper.make_tensor_value_info(name, kind, shape))

    def _type(self, dtype: Any) -> Any:
        return self._onnx.helper.np_dtype_to_tensor_dtype(np.dtype(dtype))

    def model(self, about: str, facts: dict[str, str]) -> Any:
        """Return the checked model, with a sentence about it and metadata."""
        helper = self._onnx.helper
        constants = list(self._constants.values())
        graph = helper.make_graph(self._nodes, "privol", self._inputs, self._outputs, constants, doc_string=about)
        used = {node.domain for node in self._nodes}
        opsets = [helper.make_opsetid(domain, version) for domain, version in _OPSETS if domain in used]
        found = helper.make_model(
            graph, opset_imports=opsets, ir_version=_IR_VERSION, producer_name="privol", producer_version=__version__
        )
        found.doc_string = about
        helper.set_model_props(found, facts)
        self._onnx.checker.check_model(found, full_check=True)
        return found

    # ---- operations ------------------------------------------------------------------------------------

    def constant(self, value: Any, dtype: Any = np.float64) -> str:
        """Return an array or a number."""
        array = np.asarray(value, dtype=dtype)
        key = f"{array.dtype.str}{array.shape}{array.tolist()!r}"
        if key not in self._constants:
            name = self._free(f"constant {len(self._constants)}")
            if array.dtype.kind in "OU":
                texts = [str(text).encode() for text in array.ravel()]
                tensor = self._onnx.helper.make_tensor(name, self._onnx.TensorProto.STRING, array.shape, texts)
            else:
                tensor = self._onnx.numpy_helper.from_array(array, name)
            self._constants[key] = tensor
        return str(self._constants[key].name)

    def apply(self, operator: str, *values: str, domain: str = "", **attributes: Any) -> str:
        """Return what an operator makes of values."""
        name = self._free(f"value {next(self._numbers)}")
        self._nodes.append(self._onnx.helper.make_node(operator, list(values), [name], domain=domain, **attributes))
        return name

    def scaled(self, operator: str, value: str, factor: float) -> str:
        """Return values times ("Mul") or over ("Div") a number.

        onnxruntime 1.32 leaves the operation out where the number is 1 in single precision: then twice the number is
        taken, and the result made up for, which is exact.
        """
        if factor != 1.0 and np.float32(factor) == 1.0:
            rest = self.constant(0.5 if operator == "Mul" else 2.0)
            return self.apply("Mul", self.scaled(operator, value, 2.0 * factor), rest)
        return self.apply(operator, value, self.constant(factor))

    def cast(self, value: str, dtype: Any = np.float64) -> str:
        """Return values as another type."""
        return self.apply("Cast", value, to=self._type(dtype))

    def either(self, *masks: str) -> str:
        """Return where one of the masks holds."""
        found, *others = masks
        for other in others:
            found = self.apply("Or", found, other)
        return found

    def equals(self, value: str, *numbers: float, dtype: Any = np.float64) -> str:
        """Return where a value is one of these numbers."""
        return self.either(*(self.apply("Equal", value, self.constant(x, dtype)) for x in numbers))

    def nan(self, value: str) -> str:
        """Return where a value is NaN."""
        return self.apply("Not", self.apply("Equal", value, value))

    def indicators(self, places: str, width: int) -> str:
        """Return 0/1 columns of places from 0 to width - 1, shape (n, width), of places of shape (n, 1)."""
        return self.cast(self.apply("Equal", places, self.constant(np.arange(width)[None], np.int64)))

    def clipped(self, value: str, low: float, high: float) -> str:
        """Return values within two bounds."""
        return self.apply("Min", self.apply("Max", value, self.constant(low)), self.constant(high))

    def along(self, operator: str, value: str, *, keep: bool = True) -> str:
        """Return a reduction along the second axis, shape (n, 1), or (n,) without ``keep``."""
        return self.apply(operator, value, self.constant([1], np.int64), keepdims=int(keep))

    def beside(self, values: list[str]) -> str:
        """Return arrays side by side."""
        return values[0] if len(values) == 1 else self.apply("Concat", *values, axis=1)

    def rows_of(self, table: NDArray[Any], places: str) -> str:
        """Return rows of a table, shape (n, width), at places of shape (n, 1)."""
        flat = self.apply("Reshape", places, self.constant([-1], np.int64))
        return self.apply("Gather", self.constant(table, table.dtype), flat, axis=0)
