"""PyTorch's own databases of ops, modules and optimizers, made ready to be imported; import this before them.

For each op the database walks up the stack for a `unittest.TestCase`, reading each frame's source, and for each
sample it seeds devices that nobody has initialized, which notes the stack as text for later. That took three quarters
of a run under pytest, whose stack is deep. Here is no TestCase, and none of those devices is used.
"""

from __future__ import annotations

import importlib.util
import sys
import types
import unittest

import torch

# The databases' modules derive classes of tests, which nothing here runs, from this package's: GPU machines lack it.
if importlib.util.find_spec("expecttest") is None:
    sys.modules["expecttest"] = types.ModuleType("expecttest")
    sys.modules["expecttest"].TestCase = unittest.TestCase

from torch.testing._internal import common_utils

common_utils.extract_test_fn = lambda: None


def _seed_once_initialized(module: types.ModuleType) -> None:
    seed = module.manual_seed_all

    def seed_if_initialized(number: int) -> None:
        if module.is_initialized():
            seed(number)

    module.manual_seed_all = seed_if_initialized


# Or on a machine with PyTorch's own accelerator samples are made for that.
torch.cuda.is_available = lambda: False

for _module in (torch.cuda, torch.xpu):
    _seed_once_initialized(_module)
