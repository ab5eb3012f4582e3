"""sed, awk and sort: languages and options in which a filter can write and run programs."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from sandboxrun.screening.judging.builtins import file_text
from sandboxrun.screening.judging.environment import is_harmless_command
from sandboxrun.screening.judging.invocation import Invocation, Verdict
from sandboxrun.screening.judging.options import read_options
from sandboxrun.screening.judging.outputs import contents
from sandboxrun.screening.judging.readers import READERS, judge_reader
from sandboxrun.screening.reading import marks
from sandboxrun.screening.reading.expand import Arg


def _sed(inv: Invocation) -> Verdict:
    args = tuple(_unattached(arg) for arg in inv.args)
    options = read_options(args, "efl", ("expression", "file", "line-length"))
    scripts = options.all_values("e", "expression")
    operands = options.operands
    files = options.all_values("f", "file")
    if not scripts and not files:
        scripts, operands = list(operands[:1]), operands[1:]
    in_place = options.has("i", "in-place")
    read_only = not in_place and not files and not options.doubtful
    for script in scripts:
        read_only = _sed_script(inv, script) and read_only
    for file in files:
        inv.walk.read(file, inv.scope)
        text = file_text(inv, file)
        if text is not None:
            _sed_script(inv, file._replace(text=text))
    for operand in operands:
        if in_place:
            inv.walk.write(operand, inv.scope)
        else:
            inv.walk.read(operand, inv.scope)
    return Verdict(read_only, _sed_output(inv, scripts, operands))


def _unattached(arg: Arg) -> Arg:
    """Return ``-i.bak`` as ``-i``: its suffix is no cluster of options."""
    if re.match(r"-[nErsuz]*i", arg.text):
        return arg._replace(text=arg.text[: arg.text.index("i") + 1])
    return arg


def _sed_output(inv: Invocation, scripts: list[Arg], operands: tuple[Arg, ...]) -> str:
    text = contents(inv, operands)
    if len(scripts) == 1 and marks.is_static(text):
        match = re.fullmatch(r"s(.)([\w ./-]*)\1([\w ./-]*)\1g?", scripts[0].text)
        if match is not None:
            return text.replace(match[2], match[3]) if match[2] else text
    before = (
        re.fullmatch(r"s(.)\^\1([\w ./-]+)\1g?", scripts[0].text) if len(scripts) == 1 else None
    )
    return (before[2] if before is not None else "") + marks.UNKNOWN + marks.taint(text)


_ADDRESS: Final = r"(?:\d+(?:~\d+)?|\$|/(?:\\.|\[[^\]\n]*\]|[^/\\\n])*/[IM]*)"
_SED_COMMAND: Final = re.compile(
    rf"[\s;{{}}]*(?:{_ADDRESS}(?:\s*,\s*(?:[+~]?\d+|{_ADDRESS}))?)?\s*(?:!\s*)*", re.DOTALL
)


def _sed_script(inv: Invocation, script: Arg) -> bool:
    """Report what a sed script writes and runs. True where it is proved to only print."""
    text = marks.plain(script.text)
    if marks.is_unresolved(text):
        return False
    at = 0
    proved = True
    while at < len(text):
        address = _SED_COMMAND.match(text, at)
        at = address.end() if address is not None else at
        if at >= len(text):
            break
        step = _sed_command(inv, script, text, at)
        if step is None:
            return False
        at, harmless = step
        proved = proved and harmless
    return proved


def _sed_command(inv: Invocation, script: Arg, text: str, at: int) -> tuple[int, bool] | None:
    letter = text[at]
    rest = text[at + 1 :]
    line_end = at + 1 + (rest.index("\n") if "\n" in rest else len(rest))
    if letter in "wW":
        inv.walk.write(script._replace(text=text[at + 1 : line_end].strip()), inv.scope)
        return line_end, text[at + 1 : line_end].strip() in ("/dev/stdout", "/dev/stderr")
    if letter in "rR":
        inv.walk.read(script._replace(text=text[at + 1 : line_end].strip()), inv.scope)
        return line_end, True
    if letter == "e":
        command = text[at + 1 : line_end].strip()
        if command:
            inv.script(script._replace(text=command))
        else:
            inv.find("unresolved.code", script)
        return line_end, False
    if letter in "sy":
        return _sed_substitution(inv, script, text, at)
    if letter in "aic":
        return _sed_text_end(text, at), True
    if letter in ":btT#":
        stop = re.compile(r"\n" if letter in ":#" else r"[\n;}]").search(text, at + 1)
        return (stop.start() if stop else len(text)), True
    if letter in "qQlL":
        digits = re.compile(r"\s*\d*").match(text, at + 1)
        return (digits.end() if digits else at + 1), True
    if letter in "=dDgGhHnNpPxzF}{":
        return at + 1, True
    return None


def _sed_text_end(text: str, at: int) -> int:
    end = at + 1
    while True:
        newline = text.find("\n", end)
        if newline < 0:
            return len(text)
        if text[newline - 1] != "\\":
            return newline
        end = newline + 1


def _sed_substitution(inv: Invocation, script: Arg, text: str, at: int) -> tuple[int, bool] | None:
    if at + 1 >= len(text):
        return None
    separator = text[at + 1]
    parts: list[str] = []
    place = start = at + 2
    while place < len(text) and len(parts) < 2:  # noqa: PLR2004 - pattern and replacement
        if text[place] == "\\":
            place += 2
            continue
        if text[place] == "[" and not parts and separator != "[":
            close = text.find("]", place + 2)
            newline = text.find("\n", place)
            if close > 0 and (newline < 0 or close < newline):
                place = close
        elif text[place] == separator:
            parts.append(text[start:place])
            start = place + 1
        place += 1
    if len(parts) < 2:  # noqa: PLR2004
        return None
    flags = re.compile(r"[gpiImM0-9e]*").match(text, place)
    end = flags.end() if flags is not None else place
    given = text[place:end]
    if text[at] == "y":
        return place, True
    if end < len(text) and text[end] == "w":
        stop = text.find("\n", end)
        stop = len(text) if stop < 0 else stop
        target = script._replace(text=text[end + 1 : stop].strip())
        inv.walk.write(target, inv.scope)
        return stop, target.text in ("/dev/stdout", "/dev/stderr")
    if "e" in given:
        inv.script(script._replace(text=parts[1].replace("\\", "")))
        return end, False
    return end, True


_AWK_STRING: Final = re.compile(r'"((?:\\.|[^"\\])*)"')
_AWK_SYSTEM: Final = re.compile(r"\bsystem\s*\(")
_AWK_PIPE: Final = re.compile(r"\|&?\s*(?!\|)(getline\b)?")
_AWK_REGEX: Final = re.compile(
    r"(?<=[\s(,!~{};&|])/(?:\\.|\[[^\]]*\]|[^/\\\n])+/|^/(?:\\.|[^/\\\n])+/"
)


def _awk(inv: Invocation) -> Verdict:
    options = read_options(
        inv.args,
        "fFveEilo",
        ("file", "assign", "field-separator", "include", "load", "source", "exec"),
        stop=True,
    )
    programs = options.all_values("e", "source")
    operands = options.operands
    files = options.all_values("fEil", "file", "exec", "include", "load")
    if not programs and not files:
        programs, operands = list(operands[:1]), operands[1:]
    read_only = not files and not options.has("o", "pretty-print", "profile", "dump-variables")
    for file in files:
        text = file_text(inv, file)
        if text is not None:
            _awk_program(inv, file._replace(text=text), [])
    for program in programs:
        read_only = _awk_program(inv, program, options.all_values("v", "assign")) and read_only
    for operand in (*operands, *files):
        if not re.match(r"[A-Za-z_]\w*=", operand.text):
            inv.walk.read(operand, inv.scope)
    printed = _awk_printed(programs[0].text) if len(programs) == 1 and not files else ""
    return Verdict(read_only, printed + marks.UNKNOWN + marks.taint(contents(inv, ())))


_AWK_PRINT: Final = re.compile(r"\s*(?:BEGIN)?\s*\{\s*printf?\s+\"((?:\\.|[^\"\\])*)\"([^}]*)\}\s*")


def _awk_printed(program: str) -> str:
    """Return the text with which every line begins that a simple program prints."""
    match = _AWK_PRINT.fullmatch(program)
    if match is None:
        return ""
    return _awk_unescape(match[1]) + ("" if match[2].strip(" ;") else "\n")


def _awk_program(inv: Invocation, program: Arg, assigned: list[Arg]) -> bool:
    """Report what an awk program runs and writes. True where it is proved to only print."""
    text = marks.plain(program.text)
    if marks.is_unresolved(text):
        return False
    strings = [_awk_unescape(string) for string in _AWK_STRING.findall(text)]
    bare = _AWK_REGEX.sub(" 0 ", _AWK_STRING.sub('""', text)).replace("||", " ")
    runs = _AWK_SYSTEM.search(bare) is not None or "|" in bare or "@load" in bare
    if "/inet" in text and ("/inet/tcp" in text or "/inet/udp" in text or "/inet4" in text):
        inv.find("shell.reverse" if "getline" in bare else "network.use", program)
        return False
    if runs:
        given = [value.text.partition("=")[2] for value in assigned]
        for string in (*strings, *given, "".join(strings)):
            inv.script(program._replace(text=string))
        if not (strings or given) or re.search(r"\bsystem\s*\(\s*[^\"\s)]", bare):
            inv.find("unresolved.code", program)
        return False
    for string in strings:
        if string.startswith(("/", "~", "..")):
            inv.walk.read(program._replace(text=string), inv.scope)
    if re.search(r"\bprintf?\b[^;}\n]*>", _without_groups(bare)):
        for match in re.finditer(r'>>?\s*"((?:\\.|[^"\\])*)"', text):
            inv.walk.write(program._replace(text=match[1]), inv.scope)
        return _prints_to_standard(text)
    return True


def _without_groups(text: str) -> str:
    """Empty the parentheses: in them `>` compares."""
    before = ""
    while before != text:
        before, text = text, re.sub(r"\([^()]*\)", " ", text)
    return text


def _prints_to_standard(text: str) -> bool:
    targets = re.findall(r"\bprintf?\b[^;}\n]*>>?\s*(\S+)", text)
    return bool(targets) and all(re.match(r'"/dev/std(?:err|out)"', t) for t in targets)


def _awk_unescape(text: str) -> str:
    return text.replace('\\"', '"').replace("\\\\", "\\").replace("\\n", "\n")


def _sort(inv: Invocation) -> Verdict:
    options = read_options(inv.args, "koStT", ("key", "output", "compress-program"))
    program = options.value("", "compress-program")
    if program is not None:
        inv.find("option.program", program)
        inv.script(program)
    return judge_reader(inv, READERS["sort"])


def _less(inv: Invocation) -> Verdict:
    read_only = True
    for arg in inv.args:
        match = re.match(r"\+\+?!(.*)", arg.text, re.DOTALL)
        if match is not None:
            inv.script(arg._replace(text=match[1]))
            read_only = False
    verdict = judge_reader(inv, READERS["less"])
    return verdict._replace(read_only=verdict.read_only and read_only)


def _man(inv: Invocation) -> Verdict:
    options = read_options(inv.args, "PHB", ("pager", "html"))
    for pager in options.all_values("PH", "pager", "html"):
        if not is_harmless_command(pager.text):
            inv.find("option.program", pager)
            inv.script(pager)
    return judge_reader(inv, READERS["man"])


RULES: Final[dict[str, Callable[[Invocation], Verdict]]] = {
    "sed": _sed,
    "gsed": _sed,
    **dict.fromkeys(("awk", "gawk", "mawk", "nawk", "goawk", "original-awk"), _awk),
    "sort": _sort,
    "gsort": _sort,
    "less": _less,
    "man": _man,
}
