"""Another process, as the races need it: answers, or asks and waits, at a word on its stdin.

``answer STATE BY yes|no``: for each line ``APPROVAL_ID [BOOT_CLOCK_NS]`` answers that question, at
that moment if one is given, and prints what became of it.
``own STATE``: makes a run, asks about it and prints the question's id, then waits for its answer.
"""

from __future__ import annotations

import sys
from pathlib import Path

import anyio
import anyio.to_thread
from tests.approval_world import opened_world

from sandboxrun.approval.approvals import Approvals, boot_clock
from sandboxrun.approval.question import Answer
from sandboxrun.state.directory import StateDirectory
from sandboxrun.state.store import open_store


def say(*words: object) -> None:
    sys.stdout.write(" ".join(map(str, words)) + "\n")
    sys.stdout.flush()


async def answering(path: Path, by: str, *, approved: bool) -> None:
    with StateDirectory.open(path) as directory:
        async with open_store(directory) as store:
            approvals = Approvals(store)
            say("ready")
            while line := await anyio.to_thread.run_sync(sys.stdin.readline):
                approval_id, *at = line.split()
                if at:
                    await anyio.sleep(max(0, int(at[0]) - boot_clock()) / 1e9)
                heard = await approvals.answer(
                    approval_id, Answer(approved=approved, by=by, reason=f"{by} says so")
                )
                say(heard.value)


async def owning(path: Path) -> None:
    async with opened_world(path) as world:
        now = await world.evaluate()
        asked = await world.approvals.ask(
            now.question, digest=now.bound.digest(), deadline_seconds=600
        )
        say(asked.approval_id)
        ended = await world.approvals.wait(asked.approval_id)
        say(ended.answer, ended.answered_by, boot_clock())


def main() -> None:
    match sys.argv[1:]:
        case ["answer", path, by, word]:
            anyio.run(lambda: answering(Path(path), by, approved=word == "yes"))
        case ["own", path]:
            anyio.run(owning, Path(path))
        case other:
            raise SystemExit(f"not a role: {other}")


if __name__ == "__main__":
    main()
