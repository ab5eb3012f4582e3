"""The one tree of faults.

A fault is something that kept sandboxrun from doing its work. A command that fails, a run that
is denied or times out is not a fault: those are values (`sandboxrun.model.outcome.Outcome`).
Every class has a stable ``code`` that programs may match on, an ``exit_status`` for the command
line, and ``advice``: what the reader can do next.
"""

from __future__ import annotations

from typing import ClassVar


class SandboxrunError(Exception):
    """Base of every fault.

    ``message`` says what happened and why; ``advice`` says what to do next and overrides the
    class's default.
    """

    code: ClassVar[str] = "fault"
    exit_status: ClassVar[int] = 125
    default_advice: ClassVar[str] = "Read the message; `sandboxrun --help` lists the commands."

    def __init__(self, message: str, *, advice: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.advice = self.default_advice if advice is None else advice


class UsageError(SandboxrunError):
    """The request itself is malformed; nothing was started."""

    code = "usage"
    exit_status = 2
    default_advice = "See `sandboxrun exec --help` for the accepted values."


class InvalidEnvironmentError(UsageError):
    """An environment name or value cannot be passed to a process."""

    code = "invalid_environment"
    default_advice = "Names must be non-empty without '=' or NUL; values must not contain NUL."


class UnknownWorkspaceError(UsageError):
    """The named workspace does not exist."""

    code = "unknown_workspace"
    default_advice = (
        "`sandboxrun workspace list` shows those that exist; `workspace create` adds one."
    )


class UnknownSnapshotError(UsageError):
    """The workspace has no such snapshot."""

    code = "unknown_snapshot"
    default_advice = "`sandboxrun snapshot list WORKSPACE` shows those that exist."


class UnknownRunError(UsageError):
    """No run has this id."""

    code = "unknown_run"
    default_advice = "`sandboxrun runs list` shows the runs that are known."


class ConfigurationError(SandboxrunError):
    """A setting is missing, malformed or contradicts another."""

    code = "configuration"
    exit_status = 2
    default_advice = "Check the SANDBOXRUN_* variables and the configuration file."


class PolicyError(ConfigurationError):
    """A policy document is missing, malformed, or its own examples contradict it."""

    code = "policy"
    default_advice = (
        "`sandboxrun policy check FILE` says what is wrong and where; until it is mended nothing "
        "runs under this policy."
    )


class UnknownApprovalError(UsageError):
    """No approval or grant has this id."""

    code = "unknown_approval"
    default_advice = "`sandboxrun approvals list` and `grants list` show those that are known."


class EngineError(SandboxrunError):
    """The container engine failed or answered something unusable."""

    code = "engine"
    default_advice = "`sandboxrun engine status` shows the engine in use; its own log says more."


class EngineUnavailableError(EngineError):
    """No engine answers at the address in use."""

    code = "engine_unavailable"
    default_advice = (
        "Start one with `sandboxrun engine up`, or name one with --engine, SANDBOXRUN_ENGINE or "
        "DOCKER_HOST."
    )


class EngineTimeoutError(EngineError):
    """An engine call did not answer before its deadline."""

    code = "engine_timeout"


class EngineConflictError(EngineError):
    """The engine refuses because of the object's present state (HTTP 409)."""

    code = "engine_conflict"


class EngineNotFoundError(EngineError):
    """The engine knows no such object (HTTP 404)."""

    code = "engine_not_found"


class ImageUnusableError(SandboxrunError):
    """The image is missing, or commands cannot run in it."""

    code = "image_unusable"
    default_advice = (
        "`sandboxrun image build` makes the workspace image; `image check` says what one lacks."
    )


class ImageBuildError(SandboxrunError):
    """The workspace image could not be built."""

    code = "image_build"
    default_advice = "Mend what the message names and build again; --builder chooses the other way."


class ProtocolError(SandboxrunError):
    """The init inside the container sent something that is not the protocol."""

    code = "protocol"
    default_advice = (
        "The run cannot be trusted and was ended. Run the command again; report it if it recurs."
    )


class PostureError(SandboxrunError):
    """The container is less confined than promised; the command was not sent."""

    code = "posture"
    default_advice = (
        "The engine dropped a promised limit. Use an engine or runtime that enforces it."
    )


class StateError(SandboxrunError):
    """The state directory or its database cannot be used."""

    code = "state"
    default_advice = "Check owner, mode and free space of the state directory, or choose another with SANDBOXRUN_STATE_DIR."


class WorkspaceLostError(SandboxrunError):
    """The workspace's data are gone from the engine, or are not the ones they were."""

    code = "workspace_lost"
    exit_status = 121
    default_advice = (
        "Its volume was removed or replaced from outside, and what was in it is gone. "
        "`sandboxrun workspace remove` the workspace and create it anew."
    )


class WorkspaceLimitError(SandboxrunError):
    """The workspace cannot take another layer."""

    code = "workspace_limit"
    default_advice = "Fork the workspace from a directory (`workspace create --from`)."


class OutputError(SandboxrunError):
    """The output of a run cannot be written down or read back."""

    code = "output"
    default_advice = "Check the free space of the state directory; `sandboxrun gc` makes some."


class QuotaExceededError(SandboxrunError):
    """The run does not fit into a quota; nothing was started."""

    code = "quota_exceeded"
    exit_status = 75
    default_advice = (
        "Wait for other runs to end and run it again; `sandboxrun quota show` says who has what."
    )


class UnknownArtifactError(UsageError):
    """No artifact has this id, or the asker may not read it."""

    code = "unknown_artifact"
    default_advice = (
        "An outcome names its artifact; `sandboxrun artifact list` shows those there are."
    )


class ArtifactExpiredError(UsageError):
    """The artifact existed and is gone."""

    code = "artifact_expired"
    default_advice = "Run the command again, or write what is needed for longer to the workspace."


class InstallError(SandboxrunError):
    """A needed program is absent and could not be installed or started."""

    code = "install"
    default_advice = "Install the named package with the system's package manager."
