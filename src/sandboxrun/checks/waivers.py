"""The file in which an operator accepts that promises are not kept here."""

from __future__ import annotations

import tomllib
from collections.abc import Collection, Mapping
from datetime import date
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from sandboxrun.errors import ConfigurationError


class Waiver(BaseModel):
    """One accepted risk."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    id: str
    """Of a probe."""
    reason: Annotated[str, Field(min_length=1, max_length=500)]
    expires: date | None = None
    """The last day it holds."""


class _File(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    version: Literal[1]
    waivers: tuple[Waiver, ...] = ()


def read_waivers(path: Path | None, known: Collection[str], today: date) -> Mapping[str, str]:
    """Return the reasons of the waivers in force, by probe. Blocks.

    Raises `ConfigurationError` for a file that cannot be read, is malformed, or names a probe that
    does not exist: what is not there cannot be accepted.
    """
    if path is None:
        return {}
    try:
        found = _File.model_validate(tomllib.loads(path.read_text()))
    except OSError as error:
        raise ConfigurationError(f"The waivers {path} cannot be read: {error.strerror}.") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"The waivers {path} are not TOML: {error}.") from error
    except ValidationError as invalid:
        first = invalid.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        raise ConfigurationError(f"The waivers {path}: {where}: {first['msg']}.") from invalid
    unknown = sorted({waiver.id for waiver in found.waivers} - set(known))
    if unknown:
        raise ConfigurationError(
            f"The waivers {path} name {', '.join(unknown)}, which no probe is called.",
            advice="`sandboxrun verify --list` shows the probes.",
        )
    return {
        waiver.id: waiver.reason
        for waiver in found.waivers
        if waiver.expires is None or waiver.expires >= today
    }
