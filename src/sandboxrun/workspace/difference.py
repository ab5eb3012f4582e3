"""The difference of two snapshots in full: what changed of each path, and how the text did."""

from __future__ import annotations

import difflib
import io
import stat

from sandboxrun.model.difference import PathDifference
from sandboxrun.model.text import escaped
from sandboxrun.workspace.compare import Change, compare
from sandboxrun.workspace.layers import Look
from sandboxrun.workspace.merged import MergedTree, Node

TEXT_BYTES = 256 * 1024
"""Larger files are said to differ, without how."""
_NO_NEWLINE = "\\ No newline at end of file\n"
DIFF_LINES = 2000
"""Lines of one file's difference; what is beyond them is left out, and said so."""


def difference_between(
    look: Look, old: tuple[str, ...], new: tuple[str, ...], *, text: bool, limit: int
) -> tuple[PathDifference, ...]:
    """Return up to ``limit`` differing paths, with a unified diff where ``text`` is wanted.

    Blocks; for a worker thread.
    """
    found: list[PathDifference] = []
    for change in compare(MergedTree(look, old), MergedTree(look, new)):
        if len(found) == limit:
            break
        found.append(_describe(look, change, text=text))
    return tuple(found)


def _describe(look: Look, change: Change, *, text: bool) -> PathDifference:
    before, after = change.before, change.after
    return PathDifference(
        path=escaped(change.path or b"."),
        kind=change.kind.value,
        what=_what(before, after),
        mode_before=None if before is None else before.entry.mode,
        mode_after=None if after is None else after.entry.mode,
        size_before=_size(before),
        size_after=_size(after),
        target_before=_target(before),
        target_after=_target(after),
        diff=_text_diff(look, change) if text else None,
    )


def _what(before: Node | None, after: Node | None) -> tuple[str, ...]:
    if before is None or after is None:
        return ()
    one, other = before.entry, after.entry
    differs = {
        "kind": stat.S_IFMT(one.mode) != stat.S_IFMT(other.mode),
        "mode": stat.S_IMODE(one.mode) != stat.S_IMODE(other.mode),
        "owner": (one.uid, one.gid) != (other.uid, other.gid),
        "attributes": one.xattrs != other.xattrs,
        "target": one.target != other.target,
        "size": one.is_file and other.is_file and one.size != other.size,
        "time": not one.is_dir and one.mtime_ns != other.mtime_ns,
    }
    named = tuple(name for name, is_so in differs.items() if is_so)
    return named or ("content",)


def _size(node: Node | None) -> int | None:
    return node.entry.size if node is not None and node.entry.is_file else None


def _target(node: Node | None) -> str | None:
    is_link = node is not None and stat.S_ISLNK(node.entry.mode)
    return escaped(node.entry.target) if node is not None and is_link else None


def _text_diff(look: Look, change: Change) -> str | None:
    """Return a unified diff, or None when a side is no small text file or both are the same."""
    one, other = _lines(look, change.before), _lines(look, change.after)
    if one is None or other is None:
        return None
    name = escaped(change.path)
    lines = list(difflib.unified_diff(one, other, f"a/{name}", f"b/{name}"))
    if not lines:
        return None
    if len(lines) > DIFF_LINES:
        lines[DIFF_LINES:] = [f"[{len(lines) - DIFF_LINES} more lines]\n"]
    return "".join(line if line.endswith("\n") else f"{line}\n{_NO_NEWLINE}" for line in lines)


def _lines(look: Look, node: Node | None) -> list[str] | None:
    if node is None:
        return []
    if not node.entry.is_file or node.entry.size > TEXT_BYTES:
        return None
    data = look.read(node.top.layer, node.top.path, TEXT_BYTES)
    if b"\0" in data:
        return None
    try:
        return io.StringIO(data.decode(), newline="\n").readlines()
    except UnicodeDecodeError:
        return None
