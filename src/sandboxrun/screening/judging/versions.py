"""Version control besides git: which sub-commands talk to a server."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from sandboxrun.screening.judging.invocation import MUTATING, Invocation, Verdict
from sandboxrun.screening.judging.options import read_options

_LOCAL: Final = {
    "hg": "init add addremove remove rm forget rename mv copy cp commit ci amend status st diff log"
    " annotate blame cat files manifest heads tip parents branch branches bookmarks tags tag"
    " update up checkout co merge resolve graft shelve unshelve summary root verify config help"
    " version grep locate identify id export archive phase",
    "svn": "add diff di status st info resolve resolved changelist cl cleanup mkdir copy cp move mv"
    " rename ren delete del remove rm propset ps propget pg proplist pl help upgrade",
    "bzr": "init add commit ci status st diff log info branches tags mv rm revno root version help",
    "fossil": "init add commit status diff info timeline finfo ls mv rm changes version help",
}
_DISCARDS: Final = {
    "hg": "revert purge strip rollback histedit rebase",
    "svn": "revert",
    "bzr": "revert uncommit clean-tree",
    "fossil": "revert undo clean purge shun",
}


def _versions(inv: Invocation) -> Verdict:
    for setting in read_options(inv.args, "R", ("config", "config-option")).all_values(
        "", "config"
    ):
        inv.find("option.program", setting)
        inv.script(setting._replace(text=setting.text.partition("=")[2].lstrip("!")))
    operands = read_options(inv.args, "R", ("config", "cwd", "repository"), stop=True).operands
    word = operands[0].text if operands else ""
    for operand in operands[1:]:
        inv.walk.read(operand, inv.scope)
    if word in _DISCARDS[inv.name].split():
        inv.find("git.discard")
    elif word not in _LOCAL[inv.name].split() or any("://" in arg.text for arg in operands):
        inv.find("network.use")
        inv.walk.note_network(inv.name)
    return MUTATING


RULES: Final[dict[str, Callable[[Invocation], Verdict]]] = dict.fromkeys(_LOCAL, _versions)
