"""Print how long screening takes, one command at a time: python tests/unit/screening_timing.py."""

from __future__ import annotations

import json
import statistics
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from screening_corpora import NAMES, rows

from sandboxrun.screening import screen

_MEBIBYTE = 1 << 20
_UNITS = (
    "a", "a ", "a\n", "a;", "a|", "a&&", "a&", "(", "{ ", "$(", "`", '"$(', "${a:-", "<(", "((", "[[ ",
    "if a; then ", "while a; do ", "case a in b) ", "f() { ", "a <<E\n", "a <<'E'\n", "a=", "a[", "$a", "'",
    '"', "'a' ", '"a" ', "\\", "\\\n", "#\n", "# a\n", "a >b ", "a <b ", "{a,b}", "{1..9}", "*", "?", "~/",
    "é", "日 ", "\U0001f600", "\x00", "\x01", "\r\n", "\t", "\u200b", "eval a;", "bash -c a;", "rm -rf /\n",
    "echo a | bash\n", "a <<<a\n", "$((1+", "a=$a$a;", "for i in a; do a; done\n", "time ", "! ", "coproc ",
    "python3 -c 'a'\n", "f(){ f; };f\n", "x=(a) ", "${a[", "[[ a =~ ", "a\\ ", "$'\\x41'", "export a=b ",
    "a() ( a ) ", "'\n", "cat a | sort | head\n", "find . -exec a \\; ", "xargs a ", "trap 'a' EXIT\n",
)  # fmt: skip


def _time(commands: list[str | bytes]) -> list[float]:
    taken = []
    for command in commands:
        start = time.perf_counter()
        screen(command)
        taken.append((time.perf_counter() - start) * 1000)
    return taken


def _shapes() -> Iterator[tuple[str, str | bytes]]:
    for unit in _UNITS:
        text = unit * (_MEBIBYTE // len(unit.encode()))
        yield unit, text
        yield f"'{unit}'", "'" + text.replace("'", "") + "'"
        yield f"bash -c '{unit}'", "bash -c '" + text.replace("'", "") + "'"
        yield f"cat <<'EOT' {unit}", f"cat <<'EOT'\n{text}\nEOT\n"
        yield f"bash <<'EOT' {unit}", f"bash <<'EOT'\n{text}\nEOT\n"
    yield "bytes", bytes(range(256)) * (_MEBIBYTE // 256)


def main() -> None:
    """Time the suite's corpora, the JSON Lines files named, or with ``--shapes`` large inputs."""
    screen("if true; then true; fi")
    if sys.argv[1:] == ["--shapes"]:
        shapes = list(_shapes())
        taken = _time([command for _, command in shapes])
        worst = sorted(zip(taken, [name for name, _ in shapes], strict=True), reverse=True)
        sys.stdout.write(f"{len(shapes)} inputs of 1 MiB, the slowest:\n")
        sys.stdout.writelines(f"  {took:.0f} ms  {name!r}\n" for took, name in worst[:8])
        return
    groups = {name: [row.command for row in rows(name)] for name in NAMES}
    if len(sys.argv) > 1:
        groups = {
            path: [json.loads(line)["command"] for line in Path(path).read_text().splitlines()]
            for path in sys.argv[1:]
        }
    for name, commands in groups.items():
        taken = sorted(_time(list(commands)))
        p99 = taken[int(len(taken) * 0.99)]
        sys.stdout.write(
            f"{name}: {len(taken)} commands, median {statistics.median(taken):.2f} ms, "
            f"p99 {p99:.2f} ms, worst {taken[-1]:.2f} ms\n"
        )


if __name__ == "__main__":
    main()
