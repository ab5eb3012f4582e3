"""Where layers are: one volume of the engine, and a mount of a stack for each run.

Works through the engine's API alone but for the store's own directories (`Layers`).
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Protocol, TypeVar

import anyio
import anyio.to_thread

from sandboxrun.engine.protocol import Engine, VolumeInfo
from sandboxrun.engine.spec import VolumeSpec
from sandboxrun.errors import EngineError, WorkspaceLimitError, WorkspaceLostError
from sandboxrun.model import labels
from sandboxrun.model.text import escaped
from sandboxrun.state.store import Store
from sandboxrun.workspace import rows
from sandboxrun.workspace.direct import DirectLayers
from sandboxrun.workspace.layers import CONTENT, SCRATCH, Layers, Look
from sandboxrun.workspace.rows import StoreRow

T = TypeVar("T")

OPTIONS_BYTES: Final = 4000
"""Mount options have one page in the kernel (mount(2)); some are added by the engine."""
_WORKERS: Final = 4
_OPTIONS: Final = "redirect_dir=on,index=off,metacopy=off,nosuid,nodev"
_REFUSED_IN_PATHS: Final = frozenset(',:\\"')


class LayerStore(Protocol):
    """Layers of one engine, and mounts of them."""

    @property
    def row(self) -> StoreRow:
        """Which store it is."""
        ...

    async def require(self, layers: tuple[str, ...]) -> None:
        """Check that the store is ours and has ``layers``. Raises `WorkspaceLostError`."""
        ...

    async def mount(
        self,
        volume: str,
        lowers: tuple[str, ...],
        upper: str,
        tags: tuple[tuple[str, str], ...],
    ) -> None:
        """Make the volume that mounts a stack. Raises `WorkspaceLimitError` and engine faults."""
        ...

    async def unmount(self, volume: str) -> bool:
        """Remove such a volume; False while a container still holds it."""
        ...

    async def use(self, work: Callable[[Layers], T]) -> T:
        """Run ``work`` on the directories, in a worker thread."""
        ...

    async def look(self, work: Callable[[Look], T]) -> T:
        """Run ``work`` on the contents of layers, in a worker thread."""
        ...


@dataclass(frozen=True, slots=True)
class OverlayStore:
    """Layers are directories of one volume; overlayfs stacks them."""

    engine: Engine
    row: StoreRow
    mountpoint: str
    """The volume on the engine's host."""
    layers: Layers | None
    """None: the volume is gone, and everything but removing workspaces fails."""
    _limiter: anyio.CapacityLimiter = field(default_factory=lambda: anyio.CapacityLimiter(_WORKERS))

    async def require(self, layers: tuple[str, ...]) -> None:
        """See `LayerStore.require`. Cancelling leaves nothing."""
        await self.use(lambda directories: _require(directories, self.row, layers))

    async def mount(
        self,
        volume: str,
        lowers: tuple[str, ...],
        upper: str,
        tags: tuple[tuple[str, str], ...],
    ) -> None:
        """See `LayerStore.mount`. Cancelling may leave the volume, whose name the caller knows."""
        options = mount_options(self.mountpoint, lowers, upper)
        spec = VolumeSpec(
            volume, tags, (("type", "overlay"), ("device", "overlay"), ("o", options))
        )
        await self.engine.create_volume(spec)

    async def unmount(self, volume: str) -> bool:
        """See `LayerStore.unmount`. Cancelling leaves it or not."""
        return await self.engine.remove_volume(volume)

    async def use(self, work: Callable[[Layers], T]) -> T:
        """See `LayerStore.use`. Cancelling waits for the work to end."""
        if self.layers is None:
            raise WorkspaceLostError(f"The volume {self.row.volume} of all workspaces is gone.")
        try:
            return await anyio.to_thread.run_sync(work, self.layers, limiter=self._limiter)
        except FileNotFoundError as error:
            raise WorkspaceLostError(
                f"Something is missing from the volume {self.row.volume}: {_named(error)}."
            ) from error
        except OSError as error:
            raise EngineError(
                f"The volume {self.row.volume} cannot be used: {_named(error)}.",
                advice="Check the free space of the engine's data directory.",
            ) from error

    async def look(self, work: Callable[[Look], T]) -> T:
        """See `LayerStore.look`. Cancelling waits for the work to end."""
        return await self.use(lambda directories: _looking(directories, work))


def mount_options(mountpoint: str, lowers: tuple[str, ...], upper: str) -> str:
    """Return overlayfs's mount options for a stack, the uppermost layer first. Pure.

    Raises `WorkspaceLimitError` when they are too long for the kernel, and `EngineError` when the
    store's path cannot be written in them.
    """
    if _REFUSED_IN_PATHS & set(mountpoint):
        raise EngineError(
            f"The engine keeps volumes at {mountpoint!r}, which no mount option can express.",
            advice="Give the engine a data directory without commas, colons and quotes.",
        )
    options = "lowerdir=" + ":".join(f"{mountpoint}/{layer}/{CONTENT}" for layer in lowers)
    options += f",upperdir={mountpoint}/{upper}/{CONTENT},workdir={mountpoint}/{upper}/{SCRATCH}"
    options += f",{_OPTIONS}"
    if len(options.encode()) > OPTIONS_BYTES:
        raise WorkspaceLimitError(f"{len(lowers)} layers below {mountpoint} cannot be mounted.")
    return options


async def open_overlay_store(engine: Engine, engine_id: str, state: Store) -> OverlayStore:
    """Return the installation's store on an engine, made at the first call.

    One that is gone or was replaced is set aside with the workspaces in it, which are lost, and a
    new one is made for everything else. Raises engine faults. Cancelling may leave an empty volume
    with our labels.
    """
    found = await state.read(lambda tx: rows.find_store(tx, engine_id))
    if found is None:
        return await _made(engine, engine_id, state)
    volume = await engine.inspect_volume(found.volume)
    layers = None if volume is None else _layers(volume)
    store = OverlayStore(engine, found, "" if volume is None else volume.mountpoint, layers)
    try:
        await store.require(())
    except WorkspaceLostError:
        await state.write(lambda tx: _let_go(tx, engine_id, found.store_id))
        return await _made(engine, engine_id, state)
    return store


def _let_go(tx: rows.Connection, engine_id: str, store_id: str) -> None:
    if not rows.forget_store(tx, store_id):
        rows.set_store_aside(tx, engine_id, store_id)


async def _made(engine: Engine, engine_id: str, state: Store) -> OverlayStore:
    tags = (
        (labels.INSTALLATION, state.directory.installation_id),
        (labels.STATE, f"{os.uname().nodename}:{state.directory.path}"),
        (labels.ROLE, labels.ROLE_STORE),
    )
    wanted = StoreRow(secrets.token_hex(16), f"sandboxrun-{secrets.token_hex(5)}", new_layer_id())
    volume = await engine.create_volume(VolumeSpec(wanted.volume, tags))
    store = OverlayStore(engine, wanted, volume.mountpoint, _layers(volume))
    await store.use(lambda layers: _fill(layers, wanted))
    kept = await state.write(lambda tx: rows.add_store(tx, engine_id, wanted, state.owner))
    if kept == wanted:
        return store
    # Another process was faster; nobody has heard of this one.
    await engine.remove_volume(wanted.volume)
    return await open_overlay_store(engine, engine_id, state)


def new_layer_id() -> str:
    """Return a short name: up to 18 of them and their directories must fit into mount options."""
    return secrets.token_hex(4)


def _named(error: OSError) -> str:
    name = error.filename
    where = "" if name is None else f" ({escaped(os.fsencode(name))})"
    return f"{error.strerror}{where}"


def _fill(layers: Layers, row: StoreRow) -> None:
    layers.make(row.base, like=None)
    layers.mark(row.store_id)


def _layers(volume: VolumeInfo) -> Layers:
    if os.geteuid() == 0 and Path(volume.mountpoint).is_dir():
        return DirectLayers(Path(volume.mountpoint))
    raise EngineError(
        "The engine's volumes cannot be reached from here.",
        advice="Run sandboxrun as root on the engine's own host.",
    )


def _require(directories: Layers, row: StoreRow, layers: tuple[str, ...]) -> None:
    found = directories.marker()
    if found is None:
        raise WorkspaceLostError(f"The volume {row.volume} of all workspaces is gone.")
    if found != row.store_id:
        raise WorkspaceLostError(f"The volume {row.volume} is not the one it was.")
    missing = directories.missing(layers)
    if missing is not None:
        raise WorkspaceLostError(f"Layer {missing} is missing from the volume {row.volume}.")


def _looking(directories: Layers, work: Callable[[Look], T]) -> T:
    with directories.look() as look:
        return work(look)
