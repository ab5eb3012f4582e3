"""Package sources in both of apt's formats, and which of them a build takes."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from sandboxrun.image.apt_sources import (
    DEBIAN_KEYRING,
    AptSource,
    choose,
    parse_deb822,
    parse_one_line,
    render,
)

WORDS = st.text("abcdefghijklmnopqrstuvwxyz0123456789-./", min_size=1, max_size=12)
URIS = WORDS.map(lambda path: f"http://mirror.example/{path}")
SOURCES = st.builds(
    AptSource,
    uri=URIS,
    suite=WORDS,
    components=st.lists(WORDS, max_size=3).map(tuple),
    signed_by=st.none() | WORDS.map(lambda name: f"/keys/{name}.gpg"),
    options=st.sampled_from([(), (("trusted", "yes"),), (("check-valid-until", "no"),)]),
)


@settings(deadline=None)
@given(st.lists(SOURCES, max_size=5))
def test_what_is_rendered_is_read_back(sources: list[AptSource]) -> None:
    text = render(sources, [source.signed_by for source in sources])
    assert list(parse_one_line(text)) == sources


@settings(deadline=None)
@given(SOURCES)
def test_both_formats_say_the_same(source: AptSource) -> None:
    fields = [
        "Types: deb deb-src",
        f"URIs: {source.uri}",
        f"Suites: {source.suite}",
        f"Components: {' '.join(source.components)}",
        *(f"{name.title()}: {value}" for name, value in source.options),
    ]
    if source.signed_by is not None:
        fields.append(f"Signed-By: {source.signed_by}")
    assert list(parse_deb822("\n".join(fields))) == [source]


@settings(deadline=None)
@given(st.text(max_size=300))
def test_any_text_is_read_without_failing(text: str) -> None:
    choose([*parse_one_line(text), *parse_deb822(text)], release="bookworm", host_release=None)


def test_several_uris_and_suites_are_all_combinations_and_disabled_ones_none() -> None:
    text = """\
# a comment
Types: deb
URIs: http://one.example/debian http://two.example/debian
Suites: bookworm bookworm-updates
Components: main
 contrib

Types: deb-src
URIs: http://sources.example/debian
Suites: bookworm
Components: main

Types: deb
Enabled: no
URIs: http://disabled.example/debian
Suites: bookworm
Components: main
"""
    assert [(s.uri, s.suite, s.components) for s in parse_deb822(text)] == [
        ("http://one.example/debian", "bookworm", ("main", "contrib")),
        ("http://one.example/debian", "bookworm-updates", ("main", "contrib")),
        ("http://two.example/debian", "bookworm", ("main", "contrib")),
        ("http://two.example/debian", "bookworm-updates", ("main", "contrib")),
    ]


def test_an_inline_key_keeps_its_lines() -> None:
    text = """\
Types: deb
URIs: http://one.example/debian
Suites: bookworm
Components: main
Signed-By:
 -----BEGIN PGP PUBLIC KEY BLOCK-----
 .
 mDME
 -----END PGP PUBLIC KEY BLOCK-----
"""
    (source,) = parse_deb822(text)
    assert source.signed_by == (
        "-----BEGIN PGP PUBLIC KEY BLOCK-----\n\nmDME\n-----END PGP PUBLIC KEY BLOCK-----"
    )


def _source(uri: str, suite: str, signed_by: str | None = None, *components: str) -> AptSource:
    return AptSource(uri, suite, components or ("main",), signed_by)


def test_only_mirrors_of_the_main_archive_are_taken() -> None:
    mirror = _source("http://mirror.example/debian", "bookworm", DEBIAN_KEYRING)
    chosen = choose(
        [
            _source("http://third.example/node", "bookworm", "/keys/third.gpg"),
            _source("http://third.example/docker", "bookworm", None, "stable"),
            _source("http://third.example/x", "nodistro"),
            _source("http://third.example/pg", "bookworm-pgdg"),
            _source("file:///media/cdrom", "bookworm"),
            _source("http://mirror.example/debian", "trixie"),
            mirror,
            mirror,
            _source("http://mirror.example/security", "bookworm-security", None, "main", "contrib"),
        ],
        release="bookworm",
        host_release="bookworm",
    )
    assert chosen == (
        mirror,
        _source("http://mirror.example/security", "bookworm-security"),
    )


def test_a_mirror_of_the_hosts_release_serves_the_images_release() -> None:
    chosen = choose(
        [_source("http://mirror.example/debian", "trixie-updates")],
        release="bookworm",
        host_release="trixie",
    )
    assert [source.suite for source in chosen] == ["bookworm-updates"]


def test_a_mirror_with_keys_of_its_own_is_taken_when_there_is_no_other() -> None:
    own = _source("http://inhouse.example/debian", "bookworm", "/keys/inhouse.gpg")
    assert choose([own], release="bookworm", host_release=None) == (own,)
