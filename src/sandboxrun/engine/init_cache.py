"""Remembers across processes which init volume of which engine was verified."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

import anyio.to_thread

from sandboxrun.engine.init_volume import InitVolume, ensure
from sandboxrun.engine.protocol import Engine, EngineInfo
from sandboxrun.init.binary import packaged_binary


class InitInstallation:
    """The init of one engine: installed and read back once, then recognised.

    The volume's creation time and options are compared every time; a volume made anew is read
    again. Containers mount it read-only, so only the engine's owner can change its content.
    """

    def __init__(
        self, engine: Engine, info: EngineInfo, directory: Path, installation: str
    ) -> None:
        self._engine = engine
        self._info = info
        self._path = directory / f"init-{info.kind.value}.json"
        self._labels = (("sandboxrun.role", "init"), ("sandboxrun.installed-by", installation))
        self._known: InitVolume | None = None

    async def volume(self, image_id: str) -> InitVolume:
        """Return the verified volume, installing it first where it is missing.

        Raises `InstallError` and engine faults. Cancelling leaves at most an unverified volume.
        """
        if self._known is None:
            self._known = await anyio.to_thread.run_sync(self._read)
        before = self._known
        binary = packaged_binary(self._info.architecture)
        volume = await ensure(
            self._engine, image_id, binary.content, self._labels, known=self._known
        )
        self._known = volume
        if volume != before:
            await anyio.to_thread.run_sync(self._write, volume)
        return volume

    def _read(self) -> InitVolume | None:
        try:
            document = json.loads(self._path.read_text())
            return InitVolume(**document[self._info.engine_id])
        except (FileNotFoundError, ValueError, KeyError, TypeError):
            # Nothing usable was remembered: the volume is verified again.
            return None

    def _write(self, volume: InitVolume) -> None:
        temporary = self._path.with_suffix(".new")
        temporary.write_text(json.dumps({self._info.engine_id: asdict(volume)}))
        temporary.replace(self._path)
