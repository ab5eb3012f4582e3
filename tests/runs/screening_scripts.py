"""Random bash scripts that only run recording stubs.

A stub is named ``k0`` to ``k29``; those with an odd number fail, so that both sides of lists are
taken. The scripts reach for every place in which bash runs a command.
"""

from __future__ import annotations

import random

STUBS = tuple(f"k{number}" for number in range(30))


def _substitution(script: str) -> str:
    """Return a command substitution; a blank keeps a subshell in it from being arithmetic."""
    return f"$( {script})" if script.startswith("(") else f"$({script})"


def _joined(parts: list[str], separator: str) -> str:
    """Join statements; after a here-document only a new line can follow."""
    script = parts[0]
    for part in parts[1:]:
        script += part if script.endswith("\n") else separator + part
    return script


class ScriptMaker:
    """Makes scripts from one seed."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self._left = 0
        self._functions = 0

    def script(self) -> str:
        """Return one script."""
        self._left = self._random.randint(2, 9)
        lines = [self._statement(3) for _ in range(self._random.randint(1, 4))]
        separator = self._pick("\n", "\n", "; ", " && ", "\n\n# note k0\n", " &\n")
        return _joined(lines, separator)

    def _pick(self, *choices: str) -> str:
        return self._random.choice(choices)

    def _stub(self) -> str:
        self._left -= 1
        return self._random.choice(STUBS)

    def _name(self) -> str:
        """Return a stub's name in one of its spellings."""
        name = self._stub()
        digits = name[1:]
        return self._pick(
            name, name, name, name, f"'{name}'", f'"{name}"', f"k\\{digits[0]}{digits[1:]}",
            f"'k'{digits}", f'k""{digits}', f"$'\\x6b{digits}'", f"$'\\153'{digits}", f"${{u:-{name}}}",
            f"$(echo {name})", f"`echo {name}`", f"k\\\n{digits}", f"${{u-{name}}}",
            f"$(printf %s {name})", f"/tmp/s/{name}", f"{{{name},a}}",
        )  # fmt: skip

    def _word(self, depth: int) -> str:
        if depth <= 0 or self._left <= 0:
            return self._pick(
                "a", "b1", "'c d'", '"e"', "-x", "$HOME", "*.none", "f\\ g", "''", "x=1"
            )
        kind = self._random.randrange(16)
        inner = self._statement(depth - 1)
        sub = _substitution(inner)
        single = self._line(depth - 1)
        match kind:
            case 0:
                return f"{sub}"
            case 1:
                return f'"{sub}"'
            case 2:
                return f"`{single}`"
            case 3:
                return f'"x`{single}`y"'
            case 4:
                return f"${{u:-{sub}}}"
            case 5:
                return f'"${{HOME:+{sub}}}"'
            case 6:
                return f'"${{HOME:+`{single}`}}"'
            case 7:
                return f"$((1 + $( {single} >/dev/null; echo 1)))"
            case 8:
                return f"<( {inner})"
            case 9:
                return f"${{HOME/x/{sub}}}"
            case 10:
                return f"{{a,{sub}}}"
            case 11:
                return f"`{single}` `{self._line(depth - 1)}`"
            case 12:
                return f'"a $(echo "b {sub}")"'
            case 13:
                return f"${{u:={sub}}}"
            case 14:
                return f"${{HOME#{sub}}}"
            case _:
                return f"pre{sub}post"

    def _line(self, depth: int) -> str:
        """Return a statement that fits between backticks and in one line."""
        if depth <= 0 or self._left <= 0:
            return f"{self._stub()} {self._pick('', 'a', '-x b')}"
        return self._pick(
            f"{self._stub()} a; {self._stub()}",
            f"{self._stub()} | {self._stub()}",
            f"{self._stub()} && {self._stub()}",
            f"{{ {self._stub()}; }}",
            f"( {self._stub()} )",
            f"! {self._stub()}",
            f"if {self._stub()}; then {self._stub()}; fi",
        )

    def _simple(self, depth: int) -> str:
        words = [self._word(depth - 1) for _ in range(self._random.randint(0, 2))]
        prefix = self._pick(
            "", "", "", "", "A=1 ", 'A=1 B="x y" ', ">/dev/null ", "2>&1 ", "</dev/null "
        )
        suffix = self._pick(
            "", "", "", "", " >/dev/null", " 2>&1", " </dev/null", " >o 2>e", " <<<x", " # c"
        )
        if " #" in suffix:
            suffix += "\n"
        return f"{prefix}{self._wrapped(depth)} {' '.join(words)}{suffix}"

    def _wrapped(self, depth: int) -> str:
        name = self._name()
        if self._random.random() < 0.6 or depth <= 0:
            return name
        if name[0] in "${`":
            name = self._stub()
        wrapper = self._pick(
            "env", "env A=1", "env -u Z", "command", "nice", "nice -n 3", "nohup", "timeout 5",
            "timeout -s KILL 5", 'env -i PATH="$PATH" R="$R"', "stdbuf -o L", "setsid -w", "time",
            "command --", "nice timeout 5", "env --", "builtin command",
        )  # fmt: skip
        return f"{wrapper} {name}"

    def _quote(self, script: str) -> str:
        kind = self._random.randrange(3)
        if kind == 0:
            return "'" + script.replace("'", "'\\''") + "'"
        if kind == 1:
            escaped = "".join("\\" + c if c in '$`"\\' else c for c in script)
            return f'"{escaped}"'
        escaped = script.replace("\\", "\\\\").replace("'", "\\'").replace("\n", "\\n")
        return f"$'{escaped}'"

    def _delegated(self, depth: int) -> str:
        inner = self._statement(depth - 1)
        line = self._line(depth - 1)
        return self._pick(
            f"bash -c {self._quote(inner)}",
            f"bash --norc -c {self._quote(inner)} x y",
            f"sh -c {self._quote(line)}",
            f"bash -ec {self._quote(inner)}",
            f"eval {self._quote(inner)}",
            f"eval {self._quote(line)}",
            f"bash <<< {self._quote(inner)}",
            f"bash <<'E{depth}'\n{inner}\nE{depth}\n",
            f"bash -s a <<'E{depth}'\n{inner}\nE{depth}\n",
            f"echo {self._quote(line)} | bash",
            f"printf '%s\\n' {self._quote(line)} | sh",
            f". /dev/stdin <<< {self._quote(line)}",
            f"source /dev/stdin <<'E{depth}'\n{inner}\nE{depth}\n",
            f"echo a b | xargs {self._stub()}",
            f"echo a b | xargs -n1 {self._stub()} x",
            f"echo a | xargs -I@ bash -c {self._quote(line)}",
            f"find / -maxdepth 0 -exec {self._stub()} {{}} \\;",
            f"find / -maxdepth 0 -exec bash -c {self._quote(line)} \\;",
            f"find / -maxdepth 0 -print0 | xargs -0 {self._stub()}",
            f"(trap {self._quote(line)} EXIT; {self._stub()})",
            f"(exec {self._stub()} a)",
            f"env -S {self._quote(self._stub() + ' a')}",
            f"bash <({self._stub()}; echo {self._quote(line)})",
            f"cat <<'E{depth}' | bash\n{line}\nE{depth}\n",
            f"bash -c '\"$@\"' _ {self._stub()} a",
            f"bash -c '$0 a' {self._stub()}",
        )

    def _assignment(self, depth: int) -> str:
        sub = _substitution(self._statement(depth - 1))
        stub = self._stub()
        return self._pick(
            f"v={sub}",
            f'v="{sub}"; echo "$v"',
            f"v={stub}; $v a",
            f'v={stub}; "$v"',
            f"v=({stub} a); ${{v[@]}}",
            f'v=({stub} a); "${{v[@]}}"',
            f'set -- {stub} a; "$@"',
            f"v=x{stub}; ${{v#x}}",
            f"v={stub}z; ${{v%z}} a",
            f"v={stub.upper()}; ${{v,,}}",
            f"printf -v v '%s' {stub}; $v",
            f"read -r v <<< {stub}; $v",
            f"v=q; q={stub}; ${{!v}}",
            f"a[{sub}0]=1",
            f"a=([0]={sub} x)",
            f"declare v={sub}",
            f'export v="{sub}"',
            f"for v in {stub} ; do $v; done",
            f"while read -r v; do $v </dev/null; done <<< {stub}",
            f": ${{w:={stub}}}; $w",
            f"v=k; v+={stub[1:]}; $v",
        )

    def _compound(self, depth: int) -> str:
        one, two, three = (self._statement(depth - 1) for _ in range(3))
        sub_one, sub_two = _substitution(one), _substitution(two)
        self._functions += 1
        name = f"fn{self._functions}"
        body = self._pick("\n", "; ").join
        return self._pick(
            f"if {one}\nthen {two}\nelse {three}\nfi",
            f"if {one}\nthen {two}\nelif {three}\nthen :\nfi",
            f"for i in 1 2; do\n{one}\ndone",
            f"for i in {sub_one} x\ndo {two}\ndone",
            f"for ((i=0; i<1; i++)); do\n{one}\ndone",
            f"while {one}\ndo {two}\nbreak; done",
            f"until {one}\ndo {two}\nbreak; done",
            f"case {sub_one} in\n*) {two}\n;; esac",
            f"case a in b) {one}\n;; a|c) {two}\n;& *) {three}\n;; esac",
            f"case a in {sub_one}) :;; *) {two}\n;; esac",
            f"{{ {one}\n}}",
            f"( {one}\n{two}\n)",
            f"{name}() {{\n{one}\n}}; {name} a",
            f"function {name} {{\n{one}\n}}\n{name}",
            f"{name}() ( {one}\n); {name}",
            f'{name}() {{ "$@"; }}; {name} {self._stub()} a',
            f"time {{ {one}\n}}",
            f"! {{ {one}\n}}",
            f"{{ {one}\n}} | {{ {two}\n}}",
            f"{{ {one}\n}} >/dev/null 2>&1",
            f"coproc {{ {one}\n}}; wait",
            f"[[ -n {sub_one} ]]",
            f"[[ {sub_one} == x || -f {sub_two} ]]",
            f"(( $( {one} >/dev/null; echo 1) + 1 ))",
            f'[ "{sub_one}" = x ]',
            f'let "x = 1 + $( {self._line(depth - 1)} >/dev/null; echo 1)"',
            f"select i in a; do {one}\nbreak; done <<< 1",
            body([one, two, three]),
        )

    def _document(self, depth: int) -> str:
        inner = self._statement(depth - 1)
        sub = _substitution(inner)
        line = self._line(depth - 1)
        stub, other = self._stub(), self._stub()
        tag = f"D{depth}{self._random.randrange(100)}"
        return self._pick(
            f"{stub} <<{tag}\ntext {sub} `{line}`\n{tag}\n",
            f"{stub} <<-{tag}\n\ttext\n\t$( {line})\n\t{tag}\n",
            f"{stub} <<'{tag}'\n$({other}) `{other}`\n{tag}\n",
            f'{stub} <<"{tag}" | {other}\n$(k0)\n{tag}\n',
            f"{stub} <<{tag} && {other}\na ${{u:-$( {line})}}\n{tag}\n",
            f"{stub} <<{tag}; {other}\n$(({'$( ' + line + ' >/dev/null; echo 1)'} + 1))\n{tag}\n",
            f"{stub} <<{tag} <<'{tag}x'\n$( {line})\n{tag}\n$(k0)\n{tag}x\n",
            f'{stub} <<<"{sub}"',
            f"{stub} < <( {inner})",
            f"{stub} > >({line})",
            f"{stub} <<{tag} >/dev/null\n{tag}\n{other}\n",
            f"cat <<{tag} | {stub}\n\\$(k0) \\`k0\\`\n{tag}\n",
        )

    def _statement(self, depth: int) -> str:
        if depth <= 0 or self._left <= 0:
            return f"{self._stub()} {self._word(0)}"
        kind = self._random.randrange(20)
        if kind < 5:
            return self._simple(depth)
        if kind < 8:
            separator = self._pick(" | ", " | ", " |& ", " |\n", " | \\\n")
            stages = [
                self._simple(depth - 1).rstrip("\n").replace(" # c", "")
                for _ in range(self._random.randint(2, 4))
            ]
            return separator.join(stages)
        if kind < 10:
            separator = self._pick(" && ", " || ", " &&\n", "; ", " & ", "\n")
            parts = [self._simple(depth - 1).rstrip("\n").replace(" # c", "") for _ in range(2)]
            return separator.join(parts)
        if kind < 12:
            return self._delegated(depth)
        if kind < 14:
            return self._assignment(depth)
        if kind < 16:
            return self._document(depth)
        return self._compound(depth)
