"""The recipe of the workspace image: one package list, two scripts, a few files.

Both builders take everything from a `Recipe`; its digest goes into the image's labels, so an
image says which recipe made it and a build can be skipped when nothing changed.
"""

from __future__ import annotations

import hashlib
import importlib.resources
import re
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources.abc import Traversable
from pathlib import Path
from types import MappingProxyType

from sandboxrun.errors import ConfigurationError
from sandboxrun.image import pool

RELEASE = "bookworm"
"""The Debian release of the image."""
LABEL_KIND = "sandboxrun.image"
LABEL_VERSION = "sandboxrun.image.version"
LABEL_PACKAGES = "sandboxrun.image.packages"
LABEL_RECIPE = "sandboxrun.image.recipe"
KIND = "workspace"
"""Value of `LABEL_KIND`."""
ENVIRONMENT = (
    ("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"),
    ("LANG", "C.UTF-8"),
)
WORKING_DIR = "/workspace"
COMMAND = "/bin/bash"

PACKAGE_LIST = "packages.txt"
_RECIPE_FILES = (PACKAGE_LIST, "install.sh", "finish.sh", "gitconfig")
# Debian policy 5.6.7; the length bound only keeps nonsense out.
_PACKAGE_NAME = re.compile(r"[a-z0-9][a-z0-9+.-]{1,127}")


@dataclass(frozen=True, slots=True)
class Recipe:
    """Everything an image is made from, apart from the Debian archive itself."""

    packages: tuple[str, ...]
    """Packages asked for, in the list's order; their dependencies come with them."""
    files: Mapping[str, bytes]
    """Content by name, as the builders place it in ``/.build`` of the new root."""

    @property
    def packages_digest(self) -> str:
        """``sha256:…`` of the sorted package names."""
        return _sha256("\n".join(sorted(self.packages)).encode())

    @property
    def digest(self) -> str:
        """``sha256:…`` of every file's name and content, the uid pool included."""
        parts = (
            f"{name}\0{len(content)}\0".encode() + content
            for name, content in sorted(self.files.items())
        )
        return _sha256(b"".join(parts))

    def labels(self, version: str) -> dict[str, str]:
        """Return the labels of an image that ``version`` of sandboxrun makes from this recipe."""
        return {
            LABEL_KIND: KIND,
            LABEL_VERSION: version,
            LABEL_PACKAGES: self.packages_digest,
            LABEL_RECIPE: self.digest,
        }


def parse_packages(text: str) -> tuple[str, ...]:
    """Return the package names of a list: one a line, ``#`` starts a comment.

    Raises `ConfigurationError` for a word that is no Debian package name, for a name that occurs
    twice and for an empty list.
    """
    names: list[str] = []
    for number, line in enumerate(text.splitlines(), start=1):
        name = line.partition("#")[0].strip()
        if not name:
            continue
        if not _PACKAGE_NAME.fullmatch(name):
            raise ConfigurationError(f"Line {number}: {name!r} is not a Debian package name.")
        if name in names:
            raise ConfigurationError(f"Line {number}: package {name} is listed twice.")
        names.append(name)
    if not names:
        raise ConfigurationError("The package list names no package.")
    return tuple(names)


def recipe_from(directory: Traversable) -> Recipe:
    """Read a recipe from a directory. Raises `ConfigurationError` if a file of it is missing."""
    files: dict[str, bytes] = {}
    for name in _RECIPE_FILES:
        try:
            files[name] = directory.joinpath(name).read_bytes()
        except FileNotFoundError as missing:
            raise ConfigurationError(
                f"The image recipe lacks {name}.", advice="Install sandboxrun again."
            ) from missing
    files["passwd.pool"] = pool.passwd_entries().encode()
    files["group.pool"] = pool.group_entries().encode()
    packages = parse_packages(files[PACKAGE_LIST].decode())
    return Recipe(packages=packages, files=MappingProxyType(files))


def load_recipe() -> Recipe:
    """Return the recipe of the checkout this runs from, else the one installed with it."""
    # The checkout first: an editable install also has a copy, as old as the installation.
    checkout = Path(__file__).parents[3] / "images" / KIND
    installed = importlib.resources.files("sandboxrun") / "_data" / "images" / KIND
    return recipe_from(checkout if checkout.is_dir() else installed)


def _sha256(data: bytes) -> str:
    return f"sha256:{hashlib.sha256(data).hexdigest()}"
