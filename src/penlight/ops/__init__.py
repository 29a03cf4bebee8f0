"""Custom operators: one C++ file, or a Python function, works in PyTorch and in programs."""
