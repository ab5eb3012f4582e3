"""What a caller asks for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Self

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from sandboxrun.model.limits import Limits
from sandboxrun.model.output_limit import OnOutputLimit
from sandboxrun.model.preview import PreviewShape
from sandboxrun.model.text import RawBytes, escaped
from sandboxrun.model.workspace import NAME_PATTERN

MAX_COMMAND_BYTES = 16 * 1024 * 1024
MAX_ENV_VALUE_BYTES = 128 * 1024 - 1
"""The kernel's MAX_ARG_STRLEN bounds one ``NAME=value`` string (man 2 execve)."""


class Request(BaseModel):
    """One command and the conditions it runs under.

    Exactly one of ``command`` (given to bash) and ``argv`` (executed as it is) must be set. Text
    may carry surrogate escapes: they stand for the bytes they were read from.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    command: RawBytes | None = None
    """A shell script, any bytes but NUL, at most 16 MiB."""
    argv: tuple[RawBytes, ...] | None = None
    """Program and arguments, executed without a shell."""
    workspace: str | None = Field(default=None, pattern=NAME_PATTERN)
    """Name of the workspace mounted at ``/workspace``; None is a throwaway one."""
    cwd: RawBytes | None = None
    """Working directory: absolute, or relative to the workspace. Must exist in the sandbox."""
    env: Mapping[RawBytes, RawBytes] = Field(default_factory=dict)
    """Additions to the environment, visible in records by name."""
    secrets: Mapping[RawBytes, RawBytes] = Field(default_factory=dict, repr=False)
    """More of the environment: given to the command, and removed from whatever is shown or kept."""
    stdin: bytes | None = Field(default=None, repr=False)
    """Bytes of standard input; None is an empty one."""
    read_only: bool = False
    """Mount the frozen state, read-only: nothing is written and no writer is waited for."""
    timeout_seconds: float | None = Field(default=None, gt=0, le=86_400)
    """Limit on the command's own time; None takes the setting's."""
    limits: Limits | None = None
    """Resource limits; what is not set in it, or None, takes the setting's or the policy's."""
    expand: bool = False
    """Have a person asked about limits above the policy's maximum, instead of getting the maximum."""
    network: bool = False
    """Have a person asked for the network. Nobody can grant it yet."""
    runtime: str | None = Field(default=None, min_length=1)
    """OCI runtime; None takes the setting's. Another one than that may be asked about."""
    on_output_limit: OnOutputLimit = OnOutputLimit.END
    """What happens when the command writes more than is kept."""
    keep_output: bool = False
    """Keep the complete output as an artifact even if the outcome shows all of it."""
    preview: PreviewShape = PreviewShape.TAIL
    """Which part of a long output the outcome shows."""
    image: str | None = Field(default=None, min_length=1)
    """Image reference; None takes the setting's."""
    principal: str | None = None
    """Who asks; None takes the setting's."""
    conversation: str | None = None
    """The dialogue the command belongs to, if any."""

    @field_validator("command")
    @classmethod
    def _command_can_run(cls, command: bytes | None) -> bytes | None:
        if command is None:
            return None
        if not command.strip():
            raise ValueError("the command is empty")
        if b"\0" in command:
            raise ValueError("the command contains a NUL byte, which no process can receive")
        if len(command) > MAX_COMMAND_BYTES:
            raise ValueError(
                f"the command has {len(command)} bytes; at most {MAX_COMMAND_BYTES} fit"
            )
        return command

    @field_validator("argv")
    @classmethod
    def _argv_can_run(cls, argv: tuple[bytes, ...] | None) -> tuple[bytes, ...] | None:
        if argv is None:
            return None
        if not argv or not argv[0]:
            raise ValueError("argv names no program")
        for index, argument in enumerate(argv):
            if b"\0" in argument:
                raise ValueError(f"argument {index} contains a NUL byte")
            if len(argument) > MAX_ENV_VALUE_BYTES:
                raise ValueError(
                    f"argument {index} has {len(argument)} bytes; the kernel takes at most "
                    f"{MAX_ENV_VALUE_BYTES} in one. Pass it on stdin or as a shell command"
                )
        return argv

    @field_validator("env", "secrets")
    @classmethod
    def _env_can_be_passed(cls, env: Mapping[bytes, bytes]) -> Mapping[bytes, bytes]:
        for name, value in env.items():
            shown = escaped(name)
            if not name or b"=" in name or b"\0" in name:
                raise ValueError(f"environment name {shown!r} is empty or contains '=' or NUL")
            if b"\0" in value:
                raise ValueError(f"the value of {shown} contains a NUL byte")
            if len(name) + 1 + len(value) > MAX_ENV_VALUE_BYTES:
                raise ValueError(f"{shown} is longer than {MAX_ENV_VALUE_BYTES} bytes")
        return env

    @field_validator("cwd")
    @classmethod
    def _cwd_can_be_passed(cls, cwd: bytes | None) -> bytes | None:
        if cwd is None:
            return None
        if not cwd or b"\0" in cwd:
            raise ValueError("the working directory is empty or contains a NUL byte")
        return cwd

    @model_validator(mode="after")
    def _one_value_a_name(self) -> Self:
        twice = self.env.keys() & self.secrets.keys()
        if twice:
            shown = escaped(min(twice))
            raise ValueError(f"{shown} is given both as a secret and as a visible value")
        return self

    @model_validator(mode="after")
    def _one_form(self) -> Self:
        if (self.command is None) == (self.argv is None):
            raise ValueError("give either a shell command or an argv, and not both")
        return self
