"""What happens to a run, one value per step, in one order that everybody sees.

An event is made without a place (``seq`` 0) and gets one when it is put in the run's log. Numbers
start at 1 and have no gaps.
"""

from __future__ import annotations

import base64
import binascii
from datetime import UTC, datetime
from typing import Annotated, Any, Literal, Self, TypeAlias, TypeVar

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    PlainSerializer,
    SerializerFunctionWrapHandler,
    TypeAdapter,
    model_serializer,
    model_validator,
)

from sandboxrun.model.status import Status

Stream: TypeAlias = Literal["stdout", "stderr"]


def _utc(value: datetime) -> datetime:
    return value.astimezone(UTC)


def _rfc3339(value: datetime) -> str:
    return value.isoformat(timespec="microseconds").replace("+00:00", "Z")


Instant = Annotated[
    datetime,
    AfterValidator(_utc),
    PlainSerializer(_rfc3339, return_type=str, when_used="json"),
]
"""A moment in UTC, written as RFC 3339 with microseconds."""


class _Event(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    seq: int = Field(default=0, ge=0)
    """Place in the run's log, from 1; 0 while it is in none."""
    time: Instant = Field(default_factory=lambda: datetime.now(UTC))
    """When it was put in the log."""

    @model_serializer(mode="wrap")
    def _without_nulls(self, write: SerializerFunctionWrapHandler) -> dict[str, Any]:
        fields: dict[str, Any] = write(self)
        return {name: value for name, value in fields.items() if value is not None}


class Queued(_Event):
    """The request was accepted and has a run id."""

    type: Literal["queued"] = "queued"


class Waiting(_Event):
    """The run cannot start yet."""

    type: Literal["waiting"] = "waiting"
    reason: str
    """What it waits for, as a sentence."""


class ApprovalRequested(_Event):
    """Somebody has to say yes first."""

    type: Literal["approval_requested"] = "approval_requested"
    approval_id: str
    rule: str | None = None
    """The rule that asks."""
    expires_at: Instant | None = None
    """Silence until then is a no."""


class ApprovalResolved(_Event):
    """The question was answered, or its time ran out."""

    type: Literal["approval_resolved"] = "approval_resolved"
    approval_id: str
    granted: bool
    by: str | None = None
    """Who answered; null when nobody did."""


class Started(_Event):
    """The command was sent to its container."""

    type: Literal["started"] = "started"
    cold: bool | None = None
    """Whether the container had to be made first."""


class Output(_Event):
    """Bytes the command wrote, after redaction. Exactly one of the two forms is there.

    A character whose bytes came in several pieces has the place of its last one, so text is never
    cut inside a character.
    """

    type: Literal["output"] = "output"
    stream: Stream
    text: str | None = None
    """The bytes, where all of them are UTF-8."""
    data_base64: str | None = None
    """The bytes, where they are not."""

    @model_validator(mode="after")
    def _one_form(self) -> Self:
        if (self.text is None) == (self.data_base64 is None):
            raise ValueError("exactly one of text and data_base64 is needed")
        return self

    @classmethod
    def of(cls, stream: Stream, data: bytes, *, seq: int, time: datetime) -> Self:
        """Return the event for ``data``, in the form that fits it."""
        try:
            text = data.decode()
        except UnicodeDecodeError:
            encoded = base64.b64encode(data).decode("ascii")
            return cls(seq=seq, time=time, stream=stream, data_base64=encoded)
        return cls(seq=seq, time=time, stream=stream, text=text)

    @property
    def data(self) -> bytes:
        """The exact bytes. Raises ValueError if ``data_base64`` is not base64."""
        if self.text is not None:
            return self.text.encode()
        if self.data_base64 is None:
            raise ValueError("an output event without output")
        try:
            return base64.b64decode(self.data_base64, validate=True)
        except binascii.Error as error:
            raise ValueError(f"data_base64 is malformed: {error}") from error


class Truncated(_Event):
    """The output limit was reached. Later bytes are counted and not kept."""

    type: Literal["truncated"] = "truncated"
    kept_bytes: int
    """Bytes of output the log holds."""
    limit_bytes: int
    discarding: bool
    """Whether the run goes on; otherwise it is being ended."""


class Exited(_Event):
    """The command has ended."""

    type: Literal["exited"] = "exited"
    exit_code: int | None = None
    signal: str | None = None
    """Name of the signal that ended it."""


class Settled(_Event):
    """The run has its outcome. Always the last event."""

    type: Literal["settled"] = "settled"
    status: Status
    exit_code: int | None = None
    signal: str | None = None
    reason: str | None = None


Step = TypeVar(
    "Step",
    Queued,
    Waiting,
    ApprovalRequested,
    ApprovalResolved,
    Started,
    Truncated,
    Exited,
    Settled,
)
"""Any event that is not output."""
Event: TypeAlias = (
    Queued
    | Waiting
    | ApprovalRequested
    | ApprovalResolved
    | Started
    | Output
    | Truncated
    | Exited
    | Settled
)

_ADAPTER: TypeAdapter[Event] = TypeAdapter(Annotated[Event, Field(discriminator="type")])


def parse_event(text: str | bytes) -> Event:
    """Return the event in one line of JSON. Raises pydantic's ValidationError for anything else."""
    return _ADAPTER.validate_json(text)


def event_json(event: Event) -> str:
    """Return ``event`` as one line of JSON, without fields that are null."""
    return event.model_dump_json()
