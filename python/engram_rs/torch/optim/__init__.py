"""Optimizers of a memory and of the model around it."""

from .builder import build_optimizer
from .combined import CombinedOptimizer
from .groups import ParamGroups, param_groups
from .sinkhorn import SinkhornMomentum

__all__ = ["CombinedOptimizer", "ParamGroups", "SinkhornMomentum", "build_optimizer", "param_groups"]
