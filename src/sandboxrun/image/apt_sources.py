"""The machine's own package sources, as sources.list(5) writes them: parse, choose, render.

Pure. Which mirror a machine may use is the machine's business, so no mirror is named here: a
build takes the sources its host already uses.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

DEBIAN_KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg"
"""Where Debian keeps its own archive's keys; every Debian root file system has it."""

_COMPONENT = "main"
_POCKETS = ("", "-updates", "-security")
_REMOTE = ("http://", "https://")
# Options that decide whether an archive is believed; the others choose architectures and formats.
_CARRIED = frozenset({"trusted", "check-valid-until", "check-date", "allow-insecure"})
_ONE_LINE = re.compile(r"deb\s+(?:\[(?P<options>[^\]]*)\]\s+)?(?P<rest>\S.*)")
_FALSE = frozenset({"no", "false", "without", "off", "disable"})


@dataclass(frozen=True, slots=True)
class AptSource:
    """One archive: a single URI and suite."""

    uri: str
    suite: str
    components: tuple[str, ...]
    signed_by: str | None = None
    """A keyring's path, an armoured key block, or None for apt's default trust."""
    options: tuple[tuple[str, str], ...] = ()

    @property
    def own_keyring(self) -> str | None:
        """What must be brought along to verify this archive; None if Debian's keys do."""
        return None if self.signed_by == DEBIAN_KEYRING else self.signed_by


def parse_one_line(text: str) -> Iterator[AptSource]:
    """Yield the binary sources of a ``.list`` file. Lines apt would reject are passed over."""
    for line in text.splitlines():
        matched = _ONE_LINE.fullmatch(line.partition("#")[0].strip())
        if matched is None:
            continue
        words = matched["rest"].split()
        if len(words) < 2:  # noqa: PLR2004 - a URI and a suite
            continue
        fields = dict(_option(word) for word in (matched["options"] or "").split())
        yield AptSource(
            uri=words[0],
            suite=words[1],
            components=tuple(words[2:]),
            signed_by=fields.get("signed-by"),
            options=_carried(fields),
        )


def parse_deb822(text: str) -> Iterator[AptSource]:
    """Yield the binary sources of a ``.sources`` file, one for each URI and suite."""
    for fields in _stanzas(text):
        if "deb" not in fields.get("types", "").split():
            continue
        if fields.get("enabled", "yes").strip().lower() in _FALSE:
            continue
        signed_by = fields.get("signed-by", "").strip()
        for uri in fields.get("uris", "").split():
            for suite in fields.get("suites", "").split():
                yield AptSource(
                    uri=uri,
                    suite=suite,
                    components=tuple(fields.get("components", "").split()),
                    signed_by=signed_by or None,
                    options=_carried(fields),
                )


def choose(
    sources: Iterable[AptSource], *, release: str, host_release: str | None
) -> tuple[AptSource, ...]:
    """Return those sources that are mirrors of Debian's main archive, for ``release``.

    A mirror of the host's own release (``host_release``) is taken to carry ``release`` as well.
    Sources with Debian's keys are preferred; those with keys of their own are used only if there
    is no other, because third parties publish under the same suite names.
    """
    found: list[AptSource] = []
    for source in sources:
        pocket = _pocket(source.suite, {release, host_release})
        if pocket is None or _COMPONENT not in source.components:
            continue
        if not source.uri.startswith(_REMOTE):
            continue
        chosen = replace(source, suite=release + pocket, components=(_COMPONENT,))
        if chosen not in found:
            found.append(chosen)
    debian = tuple(source for source in found if source.own_keyring is None)
    return debian or tuple(found)


def render(sources: Sequence[AptSource], keyrings: Sequence[str | None]) -> str:
    """Return sources.list text; ``keyrings`` gives each source's keyring path in the image."""
    lines: list[str] = []
    for source, keyring in zip(sources, keyrings, strict=True):
        options = [f"{name}={value}" for name, value in source.options]
        if keyring is not None:
            options.append(f"signed-by={keyring}")
        bracket = f"[{' '.join(options)}] " if options else ""
        lines.append(f"deb {bracket}{source.uri} {source.suite} {' '.join(source.components)}\n")
    return "".join(lines)


def _pocket(suite: str, releases: set[str | None]) -> str | None:
    for release in releases:
        for pocket in _POCKETS:
            if release is not None and suite == release + pocket:
                return pocket
    return None


def _option(word: str) -> tuple[str, str]:
    name, _, value = word.partition("=")
    return name.lower(), value


def _carried(fields: dict[str, str]) -> tuple[tuple[str, str], ...]:
    return tuple((name, value.strip()) for name, value in fields.items() if name in _CARRIED)


def _stanzas(text: str) -> Iterator[dict[str, str]]:
    fields: dict[str, str] = {}
    name: str | None = None
    for line in text.splitlines():
        if line.startswith("#"):
            continue
        if not line.strip():
            if fields:
                yield fields
            fields, name = {}, None
        elif line[0].isspace():
            if name is not None:
                # A lone dot stands for an empty line inside a value, as in a key block.
                content = line.strip()
                fields[name] += "\n" + ("" if content == "." else content)
        else:
            key, _, value = line.partition(":")
            name = key.strip().lower()
            fields[name] = value.strip()
    if fields:
        yield fields
