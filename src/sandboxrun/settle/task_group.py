"""A task group whose body's own exception comes out as it is, and not in a group of one."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio
import anyio.abc


@asynccontextmanager
async def plain_task_group() -> AsyncIterator[anyio.abc.TaskGroup]:
    """Yield a task group. What its tasks raise is grouped; what the body raises is not.

    Cancelling is the task group's own: all tasks are cancelled and waited for.
    """
    raised: BaseException | None = None
    try:
        async with anyio.create_task_group() as group:
            try:
                yield group
            except BaseException as error:
                raised = error
                raise
    except BaseExceptionGroup as grouped:
        if raised is not None and grouped.exceptions == (raised,):
            raise raised from None
        raise
