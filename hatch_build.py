"""Build hook: compiles the static programs, and puts them, images and policies into the package.

The wheel needs no checkout afterwards. With ``SANDBOXRUN_BUILD_ZIG=1`` the programs are compiled by
zig (from PyPI) for every supported machine, otherwise by the machine's own compiler for itself.
"""

from __future__ import annotations

import os
import platform
import shlex
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

ZIG_SWITCH = "SANDBOXRUN_BUILD_ZIG"
MACHINES = ("x86_64", "aarch64")
PROGRAMS = {"init": "sandboxrun-init", "checks": "sandboxrun-probe"}
"""Directory below ``images/``, and what is made of its sources."""
SPELLINGS = {"amd64": "x86_64", "arm64": "aarch64"}
FLAGS = (
    *("-std=c11", "-D_GNU_SOURCE", "-Wall", "-Wextra", "-Werror", "-O2"),
    *("-static", "-s", "-pthread"),
)
ADVICE = (
    "sandboxrun's init and its probe program are static C, compiled when the package is built.\n"
    "They need a C compiler and a static libc: `apt-get install gcc libc6-dev` on Debian,\n"
    "`apk add gcc musl-dev` on Alpine, `dnf install gcc glibc-static` on Fedora;\n"
    f"or set {ZIG_SWITCH}=1 to compile with zig from PyPI."
)


class InitBuildHook(BuildHookInterface[Any]):
    """Fills ``src/sandboxrun/_data`` before the wheel is put together."""

    PLUGIN_NAME = "custom"

    def dependencies(self) -> list[str]:
        """Return what the build environment needs besides hatchling."""
        return ["ziglang"] if _with_zig() else []

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile and copy; tag the wheel for this machine."""
        del version  # editable installs need the same data
        root = Path(self.root)
        data = root / "src" / "sandboxrun" / "_data"
        machine = _machine()
        for target in MACHINES if _with_zig() else (machine,):
            for part, name in PROGRAMS.items():
                _compile(root / "images" / part, data / part / target / name, target)
        _copy(root / "images", data / "images", leave_out=tuple(PROGRAMS))
        _copy(root / "policies", data / "policies")
        build_data["pure_python"] = False
        build_data["tag"] = f"py3-none-manylinux_2_17_{machine}.musllinux_1_1_{machine}"


def _with_zig() -> bool:
    return os.environ.get(ZIG_SWITCH) == "1"


def _machine() -> str:
    machine = platform.machine().lower()
    machine = SPELLINGS.get(machine, machine)
    if sys.platform != "linux" or machine not in MACHINES:
        raise RuntimeError(
            f"sandboxrun is built on Linux for {' and '.join(MACHINES)}, not for {machine}."
        )
    return machine


def _compiler(target: str) -> list[str]:
    if _with_zig():
        return [sys.executable, "-m", "ziglang", "cc", "-target", f"{target}-linux-musl"]
    command = shlex.split(os.environ.get("CC", "cc"))
    if not command or shutil.which(command[0]) is None:
        raise RuntimeError(f"No C compiler {command}.\n{ADVICE}")
    return command


def _compile(sources: Path, binary: Path, target: str) -> None:
    binary.parent.mkdir(parents=True, exist_ok=True)
    files = sorted(str(path) for path in sources.glob("*.c"))
    with tempfile.TemporaryDirectory(dir=binary.parent) as directory:
        fresh = Path(directory) / binary.name
        done = subprocess.run(
            [*_compiler(target), *FLAGS, "-o", str(fresh), *files],
            check=False,
            capture_output=True,
            text=True,
        )
        if done.returncode:
            raise RuntimeError(f"{binary.name} does not compile:\n{done.stderr}\n{ADVICE}")
        fresh.chmod(0o755)
        fresh.replace(binary)


def _copy(source: Path, target: Path, leave_out: tuple[str, ...] = ()) -> None:
    if target.exists():
        shutil.rmtree(target)
    if source.is_dir():
        shutil.copytree(source, target, ignore=lambda _, names: set(leave_out) & set(names))
