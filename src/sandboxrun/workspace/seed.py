"""What a new workspace starts with."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from sandboxrun.model.workspace import HOME_NAME
from sandboxrun.workspace.layers import Layers

Seed: TypeAlias = Callable[[Layers, str, int], int]
"""Fills the layer of that name for that uid and returns how many entries it brought."""


def plant(layers: Layers, layer: str, uid: int, seed: Seed | None) -> int:
    """Make a workspace's first layer; return how many entries it holds. Blocks."""
    layers.make(layer, like=None, owner=uid)
    count = 0 if seed is None else seed(layers, layer, uid)
    layers.make_home(layer, HOME_NAME, uid)
    return count
