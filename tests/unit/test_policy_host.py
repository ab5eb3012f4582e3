"""The host's policy is what its file says at the moment of asking."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from sandboxrun.errors import PolicyError
from sandboxrun.policy.document import Document
from sandboxrun.policy.host import HostPolicy
from sandboxrun.policy.load import SHIPPED, load_policy, read_policy
from sandboxrun.screening import Facts, screen

TEXT = read_policy("rollout")[1]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "host.toml"
    path.write_text(TEXT)
    return path


@pytest.mark.parametrize("name", SHIPPED)
def test_a_shipped_policy_is_what_it_is_called(name: str) -> None:
    policy = HostPolicy(name, screen)
    assert policy.is_shipped
    assert policy.current() is policy.latest
    assert policy.latest == load_policy(name, screen)


def test_a_changed_file_is_read_again_and_an_unchanged_one_is_not_judged_again(file: Path) -> None:
    screened: list[str] = []

    def counting(command: str) -> Facts:
        screened.append(command)
        return screen(command)

    policy = HostPolicy(file, counting)
    first, before = policy.current(), len(screened)
    file.touch()
    assert policy.current() is first
    assert len(screened) == before
    file.write_text(TEXT.replace("maximum = 8192", "maximum = 8193"))
    changed = policy.current()
    assert changed.limits.pids is not None
    assert changed.limits.pids.maximum == 8193
    assert changed.digest() != first.digest()
    assert len(screened) > before


def test_a_broken_file_is_a_fault_each_time_until_it_is_mended(file: Path) -> None:
    policy = HostPolicy(str(file), screen)
    first = policy.current()
    for text in ("nonsense = 1", TEXT + "\n[limits]\n", "\0", ""):
        file.write_text(text)
        for _ in range(2):
            with pytest.raises(PolicyError):
                policy.current()
    file.unlink()
    with pytest.raises(PolicyError, match="cannot be read"):
        policy.current()
    file.write_text(TEXT)
    assert policy.current() == first


def test_a_relative_path_means_what_it_meant(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(file.parent)
    policy = HostPolicy(f"./{file.name}", screen)
    monkeypatch.chdir("/")
    assert policy.current().name == "rollout"


def test_a_name_is_never_a_file_of_the_working_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "ours").write_text(TEXT)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(PolicyError, match="There is no policy 'ours'"):
        HostPolicy("ours", screen)


def test_any_number_may_ask_at_once(file: Path) -> None:
    policy = HostPolicy(file, screen)
    file.write_text(TEXT + "\n# changed\n")
    together = threading.Barrier(8)
    found: list[Document] = []

    def ask() -> None:
        together.wait()
        found.append(policy.current())

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 8
    assert len(set(map(id, found))) == 1
