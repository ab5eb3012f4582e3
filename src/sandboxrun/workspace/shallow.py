"""Keep a workspace's stack of layers shallow: every lookup that fails goes through all of it."""

from __future__ import annotations

from dataclasses import dataclass

from sandboxrun.workspace import mount_rows, rows
from sandboxrun.workspace.merge import how_many
from sandboxrun.workspace.session import Access
from sandboxrun.workspace.store import new_layer_id


@dataclass(frozen=True, slots=True)
class _Head:
    snapshot_id: str
    stack: tuple[str, ...]
    sizes: tuple[int, ...]


async def keep_shallow(access: Access, workspace_id: str) -> bool:
    """Merge the uppermost layers of a workspace's head if there are too many; say if it did.

    Only for who has the turn. Older snapshots and forks keep the layers they have. Raises
    `StateError`; cancelling leaves the stack as it was, and a layer for recovery.
    """
    head = await access.state.read(lambda tx: _head(tx, workspace_id))
    count = how_many(head.sizes)
    if count == 0:
        return False
    merged, store_id = new_layer_id(), access.layers.row.store_id
    await access.state.write(
        lambda tx: rows.add_layer(tx, merged, store_id, access.state.owner), durable=False
    )
    await access.layers.use(lambda layers: layers.merge(head.stack[:count], merged))

    def replace(tx: rows.Connection) -> None:
        rows.seal_layer(tx, merged, sum(head.sizes[:count]))
        rows.set_stack(tx, head.snapshot_id, (merged, *head.stack[count:]))
        mount_rows.doom_layers(tx, store_id, head.stack[:count])

    await access.state.write(replace, durable=False)
    return True


def _head(tx: rows.Connection, workspace_id: str) -> _Head:
    workspace = rows.workspace_by_id(tx, workspace_id)
    if workspace is None:
        return _Head("", (), ())
    stack = rows.stack_of(tx, workspace.head)
    return _Head(workspace.head, stack, rows.sizes_of(tx, stack))
