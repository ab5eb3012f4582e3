"""Forty planted secrets in real runs: none of their documented forms is left anywhere."""

from __future__ import annotations

import json
import os
import secrets
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from conftest import Bench
from sandboxrun.model.event import Output, event_json
from sandboxrun.output.secret_forms import forms

pytestmark = [pytest.mark.engine, pytest.mark.docker]


def letters(count: int) -> str:
    pool = "ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz23456789"
    return "".join(secrets.choice(pool) for _ in range(count))


def digits(count: int) -> str:
    return "".join(secrets.choice("0123456789abcdef") for _ in range(count))


def caps(count: int) -> str:
    return "".join(secrets.choice("ABCDEFGHIJKLMNOPQRSTUVWXYZ234567") for _ in range(count))


TOKENS = {
    "AKIA": "AKIA" + caps(16),
    "ASIA": "ASIA" + caps(16),
    "google": "AIza" + letters(35),
    "github": "ghp_" + letters(36),
    "github app": "ghs_" + letters(36),
    "github pat": "github_pat_" + letters(82),
    "gitlab": "glpat-" + letters(20),
    "slack": "xoxb-" + digits(12) + "-" + letters(24),
    "npm": "npm_" + letters(36),
    "pypi": "pypi-AgEIcHlwaS5vcmc" + letters(60),
    "openai": "sk-proj-" + letters(48),
    "openai old": "sk-" + letters(48),
    "anthropic": "sk-ant-api03-" + letters(93) + "AA",
    "stripe": "sk_live_" + letters(24),
    "sendgrid": "SG." + letters(22) + "." + letters(43),
    "huggingface": "hf_" + letters(34),
    "digitalocean": "dop_v1_" + digits(64),
    "docker": "dckr_pat_" + letters(27),
    "vault": "hvs." + letters(24),
    "jwt": f"eyJhbGciOiJIUzI1NiJ9.eyJ{letters(20)}.{letters(43)}",
}
BEARER = letters(40)
PASSWORD = letters(16)
KEY_BODY = [letters(64) for _ in range(3)]
KNOWN = {f"SECRET_{number}": letters(12 + 2 * number) for number in range(10)}
KNOWN["WITH_QUOTES"] = 'a"b\\c\u00e4 d/e?f=' + letters(8)
CARRIED = {
    f"Authorization: Bearer {BEARER}": BEARER,
    f"https://user:{PASSWORD}@host.example/path": PASSWORD,
    "-----BEGIN RSA PRIVATE KEY-----\n" + "\n".join(KEY_BODY) + "\n-----END RSA PRIVATE KEY-----": (
        KEY_BODY[1]
    ),
}

INTERLEAVED = """
import os, sys, time
for byte in sys.argv[1].encode():
    os.write(1, bytes([byte]))
    os.write(2, b"%d " % byte)
"""
TWO_AT_ONCE = """
import os, sys
for one, two in zip(sys.argv[1].encode(), sys.argv[2].encode()):
    os.write(1, bytes([one]))
    os.write(2, bytes([two]))
"""
ENCODED = """
import base64, json, os, sys, urllib.parse
for name in sys.argv[1:]:
    value = os.environb[name.encode()]
    for shift in range(3):
        print(base64.b64encode(b"x" * shift + value + b"more").decode())
        print(base64.urlsafe_b64encode(b"x" * shift + value).decode())
    print(base64.encodebytes(b"padding " * 5 + value + b" and more text behind it" * 3).decode())
    print(value.hex(), value.hex().upper())
    print(urllib.parse.quote(value), urllib.parse.quote(value, safe=""), urllib.parse.quote_plus(value))
    print(json.dumps({"v": value.decode()}), json.dumps({"v": value.decode()}, ensure_ascii=False))
"""


def everything_said(bench: Bench, command: str) -> Iterator[bytes]:
    """Run ``command`` and yield all that a caller is told of it."""

    async def told() -> list[bytes]:
        run = await bench.runner.start(command, secrets=KNOWN, keep_output=True)
        events = [event async for event in run.events()]
        outcome = await run.outcome()
        assert outcome.exit_code == 0, outcome.preview.text
        assert outcome.redactions > 0
        text = [event.data for event in events if isinstance(event, Output)]
        said = [event_json(event).encode() for event in events]
        return [*text, *said, b"".join(text), outcome.model_dump_json().encode()]

    yield from bench.portal.call(told)


def everything_kept(directory: Path) -> Iterator[tuple[Path, bytes]]:
    for path in directory.rglob("*"):
        if path.is_file():
            yield path, path.read_bytes()


def looked_for() -> set[bytes]:
    found = {token.encode() for token in TOKENS.values()} | {v.encode() for v in CARRIED.values()}
    for value in KNOWN.values():
        found |= forms(value.encode())
    return found


def commands() -> Iterator[str]:
    quoted = [shlex.quote(token) for token in TOKENS.values()]
    yield "printf '%s\\n' " + " ".join(quoted)
    yield "printf '%s\\n' " + " ".join(shlex.quote(text) for text in CARRIED)
    yield "for name in " + " ".join(KNOWN) + '; do printf "%s\\n" "${!name}"; done; env'
    yield "python3 -c " + shlex.quote(ENCODED) + " " + " ".join(KNOWN)
    for token in quoted[:4]:
        yield f"python3 -c {shlex.quote(INTERLEAVED)} {token}"
    yield f"python3 -c {shlex.quote(TWO_AT_ONCE)} {quoted[4]} {quoted[5]}"
    yield "python3 -c " + shlex.quote(INTERLEAVED) + ' "$SECRET_3"'
    yield "printf '\\033[1;31m%s\\033[0m%s\\n' " + f"{quoted[3][:9]} {quoted[3][9:]}"
    yield 'printf "%s\\n" "x $SECRET_9 y" | grep --color=always -- "${SECRET_9:4:5}"'
    yield 'touch -- "$SECRET_1" ' + quoted[0] + "; ls -l; cat nothing-" + quoted[3] + "; true"
    yield 'python3 -c \'import json,os; print(json.dumps({"a": [os.environ["WITH_QUOTES"]]}))\''


def test_nothing_is_left_of_forty_secrets(bench: Bench) -> None:
    assert len(TOKENS) + len(CARRIED) + len(KNOWN) + len(KEY_BODY) >= 37
    needles = looked_for()
    for command in commands():
        for said in everything_said(bench, command):
            left = [needle for needle in needles if needle in said]
            assert left == [], command
    for path, content in everything_kept(bench.settings.state_dir):
        left = [needle for needle in needles if needle in content]
        assert left == [], path


def test_the_command_line_passes_a_secret_on_and_does_not_show_it(bench: Bench) -> None:
    value = letters(24)
    done = bench.cli(
        "exec",
        "--json",
        "--secret",
        "MINE",
        'echo "$MINE"; test ${#MINE} = 24',
        env={"MINE": value},
    )
    outcome = json.loads(done.stdout)
    assert outcome["status"] == "succeeded"
    assert outcome["preview"]["text"] == "[redacted: MINE]\n"
    absent = bench.cli("exec", "--secret", "ABSENT", "true")
    assert absent.returncode == 2
    assert b"no such variable" in absent.stderr


def test_secrets_of_the_host_are_hidden_too(bench: Bench) -> None:
    value = letters(24)
    done = bench.cli("exec", f"echo {value}", env={"DEPLOY_TOKEN": value})
    assert done.stdout == b"[redacted: DEPLOY_TOKEN]\n"
    assert os.environ.get("DEPLOY_TOKEN") is None
