"""Operators that the runtime itself computes: no kernel library is asked for them.

They calculate with numbers (symbolic sizes, counters of loops), or set up a
view. Arguments of a call: the inputs in this order, then the value the result
is written to. The two tensor operators write to one of the arguments named.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from typing import Any

# Name in programs -> names of the arguments, the written one last unless marked by `!`.
PRIMS: Mapping[str, tuple[str, ...]] = {
    "executorch_prim::et_view.default": ("self", "size", "out!"),
    "executorch_prim::et_copy_index.tensor": ("copy_to!", "copy_from", "index"),
    "executorch_prim::add.Scalar": ("a", "b", "out!"),
    "executorch_prim::sub.Scalar": ("a", "b", "out!"),
    "executorch_prim::mul.Scalar": ("a", "b", "out!"),
    "executorch_prim::floordiv.Scalar": ("a", "b", "out!"),
    "executorch_prim::truediv.Scalar": ("a", "b", "out!"),
    "executorch_prim::mod.Scalar": ("a", "b", "out!"),
    "executorch_prim::eq.Scalar": ("a", "b", "out!"),
    "executorch_prim::lt.Scalar": ("a", "b", "out!"),
    "executorch_prim::le.Scalar": ("a", "b", "out!"),
    "executorch_prim::gt.Scalar": ("a", "b", "out!"),
    "executorch_prim::ge.Scalar": ("a", "b", "out!"),
    "executorch_prim::neg.Scalar": ("a", "out!"),
    "executorch_prim::sym_not.Scalar": ("a", "out!"),
    "executorch_prim::sym_ite.Scalar": ("condition", "a", "b", "out!"),
    "executorch_prim::sym_float.Scalar": ("a", "out!"),
    "executorch_prim::sym_int.Scalar": ("a", "out!"),
    "executorch_prim::ceil.Scalar": ("a", "out!"),
    "executorch_prim::round.Scalar": ("a", "out!"),
    "executorch_prim::trunc.Scalar": ("a", "out!"),
    "executorch_prim::sym_max.Scalar": ("a", "b", "out!"),
    "executorch_prim::sym_min.Scalar": ("a", "b", "out!"),
    "aten::sym_size.int": ("self", "dim", "out!"),
    "aten::sym_numel": ("self", "out!"),
    "aten::_local_scalar_dense": ("self", "out!"),
}

# Python functions of an exported graph that calculate with numbers. Division
# and the rest by name, since torch wraps some of them in functions of its own.
PYTHON_PRIMS: Mapping[Callable[..., Any], str] = {
    operator.add: "executorch_prim::add.Scalar",
    operator.sub: "executorch_prim::sub.Scalar",
    operator.mul: "executorch_prim::mul.Scalar",
    operator.floordiv: "executorch_prim::floordiv.Scalar",
    operator.truediv: "executorch_prim::truediv.Scalar",
    operator.mod: "executorch_prim::mod.Scalar",
    operator.neg: "executorch_prim::neg.Scalar",
    operator.eq: "executorch_prim::eq.Scalar",
    operator.lt: "executorch_prim::lt.Scalar",
    operator.le: "executorch_prim::le.Scalar",
    operator.gt: "executorch_prim::gt.Scalar",
    operator.ge: "executorch_prim::ge.Scalar",
}

# By name: calculations made of several of them, or of kernels on a 0-d tensor.
COMPOSITES: Mapping[str, str] = {
    "floor": "",
    "sym_floor": "",
    "ne": "",
    "pow": "aten::pow.Tensor_Tensor_out",
    **{f"sym_{name}": f"aten::{name}.out" for name in ("sqrt", "log2", "exp", "sin", "cos", "tan", "tanh")},
}

NAMED_PRIMS: Mapping[str, str] = {
    "sym_max": "executorch_prim::sym_max.Scalar",
    "sym_min": "executorch_prim::sym_min.Scalar",
    "sym_not": "executorch_prim::sym_not.Scalar",
    "sym_ite": "executorch_prim::sym_ite.Scalar",
    "sym_float": "executorch_prim::sym_float.Scalar",
    "sym_int": "executorch_prim::sym_int.Scalar",
    "ceil": "executorch_prim::ceil.Scalar",
    "trunc": "executorch_prim::trunc.Scalar",
    "round": "executorch_prim::round.Scalar",
}
