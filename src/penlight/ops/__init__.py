"""Custom operators: one C++ file, or a Python function, works in PyTorch and in programs.

    op = penlight.ops.load("custom_linear.cpp")     # torch.ops.myop.custom_linear, and in every program
    @penlight.op("myop::custom_linear").backward    # more about it, in Python
    @penlight.op("myop::swish")                     # an operator in Python alone

`load` also works where torch is not installed: programs find the kernels then.
"""

from penlight.ops.declared import Operator, op
from penlight.ops.loading import Library, load, loaded

__all__ = ["Library", "Operator", "load", "loaded", "op"]
