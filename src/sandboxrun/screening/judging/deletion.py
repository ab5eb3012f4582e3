"""Deleting, moving away, and changing permissions: how bad it is depends on where."""

from __future__ import annotations

import re
from typing import Final

from sandboxrun.screening.judging.invocation import MUTATING, Invocation, Verdict
from sandboxrun.screening.judging.options import Options, read_options
from sandboxrun.screening.judging.paths import Place, place_of, resolve
from sandboxrun.screening.judging.secrets import is_project_secret, is_secret
from sandboxrun.screening.reading import marks
from sandboxrun.screening.reading.expand import Arg
from sandboxrun.screening.reading.scope import Scope

_REGENERABLE: Final = frozenset(
    "build dist target node_modules bower_components __pycache__ .pytest_cache .mypy_cache"
    " .ruff_cache .hypothesis .tox .nox .coverage coverage htmlcov .nyc_output .cache"
    " .parcel-cache .turbo .next .nuxt .svelte-kit .output .vite .angular .gradle .eggs obj"
    " out .venv venv .terraform .sass-cache .dart_tool .build DerivedData _build"
    " cmake-build-debug cmake-build-release CMakeFiles tmp temp .tmp storybook-static"
    " .docusaurus .vuepress .serverless .webpack .swc .rollup.cache .eslintcache"
    " .stylelintcache .ipynb_checkpoints site public/build test-results playwright-report"
    " junit .import_linter_cache .benchmarks .pytype .pyre .ccls-cache .clangd bazel-bin"
    " bazel-out bazel-testlogs zig-cache zig-out .stack-work dist-newstyle deps/_build"
    " elm-stuff .bundle/cache _site .jekyll-cache .pub-cache reports logs.tmp lcov-report".split()
)
_REGENERABLE_PATTERN: Final = re.compile(
    r".*\.(?:egg-info|pyc|pyo|o|obj|class|dSYM|tsbuildinfo|whl)|cmake-build-.*|bazel-.*"
)
_USER_DIRECTORIES: Final = frozenset(
    "Documents Desktop Downloads Pictures Music Videos Public Templates Library Movies".split()
)
_ALWAYS_SYSTEM: Final = re.compile(r"/(?:bin|boot|dev|etc|lib\w*|proc|sbin|sys|usr|System)(?:/|$)")


def deletion_codes(text: str, scope: Scope, *, recursive: bool) -> list[str]:
    """Return the findings of deleting the path ``text``."""
    return [
        code
        for path in resolve(text, scope)
        if (code := _deletion_code(path, text, recursive=recursive)) is not None
    ]


def _deletion_code(path: str, text: str, *, recursive: bool) -> str | None:
    if is_secret(path):
        return "secret.read"
    head, _, last = path.rpartition("/")
    if path.startswith("/") and last and not last.strip(marks.UNKNOWN + marks.SPLAT):
        # It may be anything in there, or nothing at all.
        return "delete.system" if place_of(head or "/") is Place.SYSTEM else "unresolved.delete"
    target, everything = _contents(path)
    match place_of(target):
        case Place.ROOT:
            return _at_root(path, everything=everything)
        case Place.SYSTEM | Place.RAW:
            return "delete.system"
        case Place.STATE:
            return "delete.system" if recursive or everything else "delete.outside"
        case Place.HOME:
            return "delete.home"
        case Place.IN_HOME:
            component = target.split("/")[2]
            return "delete.home" if component in _USER_DIRECTORIES else "delete.outside"
        case Place.OUTSIDE:
            return "delete.outside"
        case Place.TEMPORARY:
            return "delete.bulk"
        case Place.IN_TEMPORARY:
            return "unresolved.delete" if marks.is_unresolved(target) else None
        case Place.WORKSPACE:
            return "delete.workspace"
        case Place.DEVICE:
            return None
        case Place.INSIDE:
            return _inside(target, everything=everything, recursive=recursive)
        case Place.UNKNOWN:
            # An unknown directory can be empty, and then the rest starts at the root.
            rest = text.lstrip(marks.UNKNOWN + marks.SPLAT)
            if rest.startswith("/") and _ALWAYS_SYSTEM.match(rest) and recursive:
                return "unresolved.delete"
            return "unresolved.delete"


def _at_root(path: str, *, everything: bool) -> str:
    if everything and marks.is_unresolved(path):
        return "unresolved.delete"
    return "delete.system"


def _contents(path: str) -> tuple[str, bool]:
    """Return the directory whose whole contents ``path`` names, or the path itself."""
    head, _, last = path.rpartition("/")
    if (
        path.startswith("/")
        and last
        and (not last.strip(marks.STAR) or marks.plain(last) in (".*", ".[!.]*", "..?*"))
    ):
        return head or "/", True
    return path, False


def _inside(path: str, *, everything: bool, recursive: bool) -> str | None:
    parts = path.split("/")[2:]
    if ".git" in parts:
        return "delete.history"
    if is_project_secret(path):
        return "secret.project"
    regenerable = any(_is_regenerable(part) for part in parts)
    if regenerable and not marks.is_unresolved(path):
        return None
    if marks.is_unresolved(path):
        return "unresolved.delete"
    if everything or marks.has_glob(path) or marks.OPAQUE in parts:
        return "delete.glob"
    if not recursive or re.search(r"[^.]\.\w+$", parts[-1]):
        return None
    return "delete.sources"


def _is_regenerable(part: str) -> bool:
    return part in _REGENERABLE or _REGENERABLE_PATTERN.fullmatch(marks.plain(part)) is not None


def _remove(inv: Invocation) -> Verdict:
    options = read_options(inv.args, "", ("interactive",))
    recursive = options.has("rR", "recursive") or _may_be_recursive(inv, options)
    if options.has("", "no-preserve-root") and "no-preserve-root" in options.long:
        recursive = True
    for operand in options.operands:
        for code in deletion_codes(operand.text, inv.scope, recursive=recursive):
            inv.find(code, operand)
    return Verdict(False, "")


def _may_be_recursive(inv: Invocation, options: Options) -> bool:
    del inv
    return any(marks.is_unresolved(letter) for letter in options.short)


def _remove_one(inv: Invocation) -> Verdict:
    for operand in read_options(inv.args).operands:
        for code in deletion_codes(operand.text, inv.scope, recursive=False):
            inv.find(code, operand)
    return Verdict(False, "")


def _shred(inv: Invocation) -> Verdict:
    inv.find("delete.shred")
    for operand in read_options(inv.args, "ns").operands:
        inv.walk.write(operand, inv.scope)
        for code in deletion_codes(operand.text, inv.scope, recursive=False):
            inv.find(code, operand)
    return Verdict(False, "")


_SETUID_OCTAL: Final = re.compile(r"[=+-]?0*[2-7][0-7]{3}")
_SETUID_SYMBOLIC: Final = re.compile(r"(?:^|,)[ugoa]*[+=][rwxXt]*s")


def grants_setuid(mode: str) -> bool:
    """Tell whether a mode sets the setuid or setgid bit."""
    return bool(_SETUID_OCTAL.fullmatch(mode) or _SETUID_SYMBOLIC.search(mode))


def _chmod(inv: Invocation) -> Verdict:
    args = tuple(arg for arg in inv.args if not re.fullmatch(r"-[rwxXst]*[rwxXst]", arg.text))
    options = read_options(args, "", ("reference",))
    operands = options.operands
    if options.value("", "reference") is None and len(args) == len(inv.args):
        mode, operands = operands[:1], operands[1:]
        if mode and grants_setuid(mode[0].text):
            inv.find("privilege.setuid", mode[0])
    _permissions(inv, operands, recursive=options.has("R", "recursive"))
    return Verdict(False, "")


def _chown(inv: Invocation) -> Verdict:
    options = read_options(inv.args, "", ("reference", "from"))
    operands = options.operands
    if options.value("", "reference") is None:
        operands = operands[1:]
    recursive = options.has("R", "recursive")
    _permissions(inv, operands, recursive=recursive)
    if not recursive:
        inv.find("permission.owner")
    return Verdict(False, "")


def _permissions(inv: Invocation, operands: tuple[Arg, ...], *, recursive: bool) -> None:
    for operand in operands:
        inv.walk.write(operand, inv.scope)
        for path in resolve(operand.text, inv.scope):
            target, _ = _contents(path)
            place = place_of(target)
            if (
                recursive and place in (Place.ROOT, Place.SYSTEM, Place.STATE, Place.HOME)
            ) or place is Place.ROOT:
                inv.find("permission.system", operand)
    if recursive:
        inv.find("permission.recursive")


def _move(inv: Invocation) -> Verdict:
    options = read_options(inv.args, "tS", ("target-directory", "suffix"))
    sources, target = split_target(options)
    counting = _MOVED_AWAY if any(_leaves(place, inv) for place in target) else _MOVED
    for source in sources:
        inv.walk.read(source, inv.scope)
        codes = deletion_codes(source.text, inv.scope, recursive=True)
        for code in () if marks.is_unresolved(source.text) else codes:
            if code in counting:
                inv.find(code, source)
    for place in target:
        inv.walk.write(place, inv.scope)
    return Verdict(False, "")


_MOVED: Final = frozenset(
    "delete.system delete.home delete.outside secret.read delete.history delete.workspace".split()
)
_MOVED_AWAY: Final = _MOVED | {"delete.sources", "delete.glob"}


def _leaves(target: Arg, inv: Invocation) -> bool:
    """Tell whether what is moved there is gone from the workspace, as the rest of it is not."""
    kept = (Place.WORKSPACE, Place.INSIDE)
    return any(
        path.startswith("/") and place_of(path) not in kept
        for path in resolve(target.text, inv.scope)
    )


def split_target(options: Options) -> tuple[tuple[Arg, ...], tuple[Arg, ...]]:
    """Return the sources and the target of cp, mv, ln and install."""
    directory = options.value("t", "target-directory")
    if directory is not None:
        return options.operands, (directory,)
    if len(options.operands) < 2:  # noqa: PLR2004 - one operand has no target
        return options.operands, ()
    return options.operands[:-1], options.operands[-1:]


def _truncate(inv: Invocation) -> Verdict:
    options = read_options(inv.args, "srco", ("size", "reference"))
    size = options.value("s", "size")
    if size is None or size.text.strip("0KMGkmg") == "" or not marks.is_static(size.text):
        inv.find("file.empty")
    for operand in options.operands:
        inv.walk.write(operand, inv.scope)
    return MUTATING


def _rimraf(inv: Invocation) -> Verdict:
    for operand in read_options(inv.args).operands:
        for code in deletion_codes(operand.text, inv.scope, recursive=True):
            inv.find(code, operand)
    return Verdict(False, "")


RULES: Final = {
    "rm": _remove,
    "unlink": _remove_one,
    "rmdir": _remove_one,
    "trash": _remove,
    "trash-put": _remove,
    "rimraf": _rimraf,
    "del-cli": _rimraf,
    "shred": _shred,
    "chmod": _chmod,
    "chown": _chown,
    "chgrp": _chown,
    "mv": _move,
    "truncate": _truncate,
}
