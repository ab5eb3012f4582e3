"""Where the tests' real engines are.

One is what SANDBOXRUN_TEST_DOCKER or SANDBOXRUN_TEST_PODMAN names, else the managed one of
SANDBOXRUN_TEST_STATE (default: build/state), which is brought up.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from sandboxrun.engine.managed import ManagedEngine
from sandboxrun.engine.protocol import EngineKind
from sandboxrun.errors import EngineError, InstallError


def engine_url(kind: EngineKind = EngineKind.DOCKER) -> str:
    """Return the address of a real engine. Where the state is named, none is a failure."""
    named = os.environ.get(f"SANDBOXRUN_TEST_{kind.value.upper()}")
    if named:
        return named
    state = os.environ.get("SANDBOXRUN_TEST_STATE")
    try:
        return ManagedEngine.of(Path(state or "build/state"), kind).up()
    except (InstallError, EngineError) as fault:
        if state is not None:
            raise
        pytest.skip(f"no {kind.value}: {fault}")
