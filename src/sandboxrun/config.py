"""Settings, read once and frozen. No other module reads the environment."""

from __future__ import annotations

import getpass
import os
from pathlib import Path
from typing import Self

import platformdirs
from pydantic import Field, ValidationError
from pydantic_settings import (
    BaseSettings,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    TomlConfigSettingsSource,
)

from sandboxrun.errors import ConfigurationError
from sandboxrun.model.limits import GIB, Limits
from sandboxrun.model.ordering import Ordering
from sandboxrun.model.output_limit import MAX_OUTPUT_BYTES
from sandboxrun.model.quotas import Quotas

DEFAULT_IMAGE = "sandboxrun/workspace:latest"


def _default_state_dir() -> Path:
    return Path(platformdirs.user_state_path("sandboxrun"))


def host_environment() -> dict[str, str]:
    """Return a copy of this process's environment, for finding secrets that must not be shown."""
    return dict(os.environ)


def loader_environment() -> dict[str, str]:
    """Return what the dynamic loader needs to start this interpreter once more, and no more."""
    names = ("LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH")
    return {name: os.environ[name] for name in names if name in os.environ}


def _config_file() -> Path:
    named = os.environ.get("SANDBOXRUN_CONFIG")
    return Path(named) if named else platformdirs.user_config_path("sandboxrun") / "config.toml"


class Settings(BaseSettings):
    """What a `Runner` needs to know about its surroundings.

    Sources, the first that names a value wins: arguments, ``SANDBOXRUN_*`` variables, the file
    ``config.toml`` in the user's configuration directory (or ``SANDBOXRUN_CONFIG``), defaults.
    """

    model_config = SettingsConfigDict(
        env_prefix="SANDBOXRUN_",
        env_nested_delimiter="__",
        frozen=True,
        extra="ignore",
        allow_inf_nan=False,
    )

    state_dir: Path = Field(default_factory=_default_state_dir)
    """Where runs, workspaces and the managed engine live. Created with mode 0700."""
    engine: str | None = None
    """Engine address (``unix://…`` or ``tcp://…``); None searches the usual places."""
    docker_host: str | None = Field(default=None, validation_alias="DOCKER_HOST")
    """The Docker client's own variable, honoured after ``engine``."""
    docker_config: Path = Field(
        default_factory=lambda: Path.home() / ".docker", validation_alias="DOCKER_CONFIG"
    )
    """The Docker client's configuration directory, for its current context."""
    docker_context: str | None = Field(default=None, validation_alias="DOCKER_CONTEXT")
    """The Docker client's context by name; overrides the current one."""
    xdg_runtime_dir: Path | None = Field(default=None, validation_alias="XDG_RUNTIME_DIR")
    """Where rootless engines put their sockets."""
    http_proxy: str | None = Field(default=None, validation_alias="HTTP_PROXY")
    """For building images only; it never reaches a sandbox. So with the next two."""
    https_proxy: str | None = Field(default=None, validation_alias="HTTPS_PROXY")
    no_proxy: str | None = Field(default=None, validation_alias="NO_PROXY")
    image: str = DEFAULT_IMAGE
    """Image of runs that name none."""
    runtime: str | None = Field(default=None, min_length=1)
    """OCI runtime of runs; None is the engine's default."""
    timeout_seconds: float = Field(default=120.0, gt=0, le=86_400)
    """Time limit of runs that name none, in seconds of the command's own time."""
    limits: Limits = Limits()
    """Limits of runs that name none."""
    ordering: Ordering = Ordering.EXACT
    """How stdout and stderr are put in one sequence; weaker where the runtime cannot do it."""
    output_limit_bytes: int = Field(default=MAX_OUTPUT_BYTES, ge=1)
    """Output of one run that is kept, both streams together."""
    artifact_lifetime_seconds: float = Field(default=24 * 3600.0, gt=0)
    """How long the complete output of a run can be read."""
    artifact_budget_bytes: int = Field(default=2 * GIB, ge=0)
    """Disk space of all artifacts together; the oldest make room."""
    spool_budget_bytes: int = Field(default=4 * GIB, ge=0)
    """Disk space of all runs' logs together; the oldest make room."""
    slots: int = Field(default=8, ge=0, le=64)
    """Warm containers that may wait on the host, all processes together; 0 for none."""
    slot_idle_seconds: float = Field(default=300.0, gt=0, le=540)
    """How long one waits for its run."""
    env_allow: tuple[str, ...] = ("LANG", "LC_ALL", "TERM", "TZ")
    """Names of the image's environment that reach the command."""
    policy: str = "default"
    """Host policy: the name of a shipped one, or the path of a file."""
    quotas: Quotas = Quotas()
    """What runs may have at once (`SANDBOXRUN_QUOTAS__HOST__RUNS=4`), and what happens then."""
    principal: str = Field(default_factory=getpass.getuser)
    """Who runs commands when a request does not say."""

    @property
    def proxies(self) -> dict[str, str]:
        """The proxy variables that are set, by the name package tools read."""
        given = {
            "http_proxy": self.http_proxy,
            "https_proxy": self.https_proxy,
            "no_proxy": self.no_proxy,
        }
        return {name: value for name, value in given.items() if value}

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Order the sources: arguments, environment, file. No dotenv: it is the project's."""
        del dotenv_settings, file_secret_settings
        file = TomlConfigSettingsSource(settings_cls, toml_file=_config_file())
        return init_settings, env_settings, file

    @classmethod
    def read(cls, **overrides: object) -> Self:
        """Read every source once. Raises `ConfigurationError` naming the value at fault."""
        given = {name: value for name, value in overrides.items() if value is not None}
        try:
            return cls(**given)  # type: ignore[arg-type]
        except ValidationError as invalid:
            first = invalid.errors()[0]
            where = ".".join(str(part) for part in first["loc"])
            raise ConfigurationError(f"Setting {where}: {first['msg']}.") from invalid
        except ValueError as invalid:
            raise ConfigurationError(f"{_config_file()}: {invalid}") from invalid
