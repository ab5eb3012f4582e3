"""A small image made of this machine's own programs, so that no registry is needed."""

from __future__ import annotations

import io
import shutil
import subprocess
import tarfile
from collections.abc import AsyncIterator
from pathlib import Path

from sandboxrun.engine.protocol import Engine, ImageInfo

TAG = "sandboxrun-test/tiny:1"
PROGRAMS = (
    *("bash", "cat", "chmod", "cp", "dd", "env", "head", "id", "ln", "ls", "mkdir", "perl"),
    *("rm", "sleep", "touch", "true", "wc"),
)


async def ensure_tiny_image(engine: Engine) -> ImageInfo:
    found = await engine.inspect_image(TAG)
    if found is None:
        tar = root_file_system()
        await engine.import_image(_pieces(tar), tag=TAG, changes=["ENV LEFTOVER=1"])
        found = await engine.inspect_image(TAG)
    assert found is not None
    return found


def root_file_system() -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        for name, mode in (("tmp", 0o1777), ("proc", 0o755), ("sys", 0o755), ("dev", 0o755)):
            entry = tarfile.TarInfo(name)
            entry.type, entry.mode = tarfile.DIRTYPE, mode
            tar.addfile(entry)
        files: set[Path] = set()
        for program in PROGRAMS:
            path = Path(shutil.which(program) or "").resolve()
            tar.add(path, arcname=f"bin/{program}")
            files |= set(_libraries(path))
        for library in sorted(files):
            tar.add(library.resolve(), arcname=str(library).lstrip("/"))
        link = tarfile.TarInfo("bin/sh")
        link.type, link.linkname = tarfile.SYMTYPE, "bash"
        tar.addfile(link)
    return buffer.getvalue()


def _libraries(program: Path) -> list[Path]:
    listed = subprocess.run(["ldd", program], capture_output=True, text=True, check=True).stdout
    return [Path(word) for line in listed.splitlines() for word in line.split() if word[0] == "/"]


async def _pieces(data: bytes) -> AsyncIterator[bytes]:
    for start in range(0, len(data), 1 << 20):
        yield data[start : start + (1 << 20)]
