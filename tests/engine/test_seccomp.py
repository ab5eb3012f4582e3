"""The filter by trying: what is refused, with which errno, and what has to work under it."""

from __future__ import annotations

import errno
import platform

import pytest
from subjects import Subject
from test_posture import hardened

from sandboxrun.engine.sandbox import open_sandbox
from sandboxrun.init.request import InitRequest
from sandboxrun.init.session import Output

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.engine,
    pytest.mark.skipif(platform.machine() != "x86_64", reason="numbers are x86_64's"),
]
ENV = ((b"PATH", b"/usr/local/bin:/usr/bin:/bin"), (b"HOME", b"/tmp"))
REFUSED = {
    "mount": (165, 0, 0, 0, 0, 0),
    "umount2": (166, 0, 0),
    "pivot_root": (155, 0, 0),
    "chroot": (161, 0),
    "unshare_user": (272, 0x10000000),
    "unshare_nothing": (272, 0),
    "setns": (308, 0, 0),
    "clone_newuser": (56, 0x10000000 | 17, 0, 0, 0, 0),
    "clone_newns_high_bits": (56, 0x100020000 | 17, 0, 0, 0, 0),
    "fsopen": (430, 0, 0),
    "fsconfig": (431, 0, 0, 0, 0, 0),
    "open_tree": (428, -100, 0, 1),
    "move_mount": (429, 0, 0, 0, 0, 0),
    "mount_setattr": (442, 0, 0, 0, 0, 0),
    "add_key": (248, 0, 0, 0, 0, 0),
    "request_key": (249, 0, 0, 0, 0),
    "keyctl": (250, 0, 0, 0, 0, 0),
    "bpf": (321, 0, 0, 0),
    "perf_event_open": (298, 0, 0, 0, 0, 0),
    "userfaultfd": (323, 0),
    "ptrace_traceme": (101, 0, 0, 0, 0),
    "process_vm_readv": (310, 1, 0, 0, 0, 0, 0),
    "pidfd_getfd": (438, 0, 0, 0),
    "kcmp": (312, 1, 1, 0, 0, 0),
    "open_by_handle_at": (304, 0, 0, 0),
    "name_to_handle_at": (303, 0, 0, 0, 0, 0),
    "quotactl": (179, 0, 0, 0, 0),
    "swapoff": (168, 0),
    "reboot": (169, 0, 0, 0, 0),
    "init_module": (175, 0, 0, 0),
    "settimeofday": (164, 0, 0),
    "adjtimex": (159, 0),
    "acct": (163, 0),
    "syslog": (103, 10, 0, 0),
    "vhangup": (153,),
    "kexec_load": (246, 0, 0, 0, 0),
    "iopl": (172, 3),
    "ioperm": (173, 0, 0, 0),
    "fanotify_init": (300, 0, 0),
    "personality_norandom": (135, 0x0040000),
    "af_alg": (41, 38, 5, 0),
    "af_vsock": (41, 40, 1, 0),
    "af_packet": (41, 17, 3, 0),
    "af_netlink_nfnl": (41, 16, 3, 12),
    "af_xdp": (41, 44, 3, 0),
    "mptcp": (41, 2, 1, 262),
    "mptcp_high_bits": (41, 2, 1, 0x100000106),
    "sctp": (41, 2, 5, 0),
    "raw": (41, 2, 3, 1),
    "vsock_pair": (53, 40, 1, 0, 0),
    "tiocsti": (16, 0, 0x5412, 0),
    "tiocsti_high_bits": (16, 0, 0x100005412, 0),
    "tioclinux": (16, 0, 0x541C, 0),
}
MISSING = {
    "clone3": (435, 0, 0),
    "io_uring_setup": (425, 1, 0),
    "io_uring_enter": (426, 0, 0, 0, 0, 0, 0),
    "io_setup": (206, 1, 0),
    "memfd_secret": (447, 0),
}
ALLOWED = {
    "tcp": (41, 2, 1, 6),
    "tcp6": (41, 10, 1, 0),
    "udp": (41, 2, 2 | 0o2000000, 17),
    "unix": (41, 1, 5, 0),
    "route": (41, 16, 3, 0),
    "memfd": (319, "x", 0),
    "pidfd_open": (434, "$$ + 0", 0),
    "personality_query": (135, 0xFFFFFFFF),
    "eventfd": (290, 0, 0),
    "inotify": (294, 0),
    "timerfd": (283, 1, 0),
    "mknod_fifo": (133, "/tmp/fifo", 0o010600, 0),
}


@pytest.fixture
def anyio_backend(which: str) -> str:
    return which.split("-")[1]


async def run(subject: Subject, *argv: bytes) -> str:
    spec = await hardened(subject)
    output: list[Output] = []
    request = InitRequest(argv=argv, cwd=b"/", deadline_ms=60_000, env=ENV)
    async with open_sandbox(subject.engine, spec) as sandbox:
        await sandbox.start()
        await sandbox.run(request, None, output.append)
        await sandbox.finish(output.append)
        assert sandbox.is_over
    return b"".join(each.data for each in output).decode()


def perl(calls: dict[str, tuple[object, ...]]) -> bytes:
    lines = [
        f"$! = 0; $r = syscall({', '.join(_word(word) for word in call)}); "
        f'if ($r == 0 && "{name}" =~ /clone/) {{ exit 0 }} '
        f'print "{name} ", $r + 0, " ", $! + 0, "\\n";'
        for name, call in calls.items()
    ]
    return "\n".join(["$| = 1;", *lines]).encode()


def _word(word: object) -> str:
    # Perl's syscall takes no constant for a pointer.
    return (
        f'my $t{len(word)} = "{word}"' if isinstance(word, str) and word != "$$ + 0" else str(word)
    )


def parsed(text: str) -> dict[str, tuple[int, int]]:
    rows = [line.split(" ") for line in text.splitlines()]
    return {name: (int(result), int(code)) for name, result, code in rows}


async def test_what_is_refused(subject: Subject) -> None:
    calls = REFUSED | MISSING
    found = parsed(await run(subject, b"perl", b"-e", perl(calls)))
    expected = dict.fromkeys(REFUSED, (-1, errno.EPERM))
    expected |= dict.fromkeys(MISSING, (-1, errno.ENOSYS))
    assert found == expected


async def test_what_is_allowed(subject: Subject) -> None:
    found = parsed(await run(subject, b"perl", b"-e", perl(ALLOWED)))
    assert {name for name, (result, _) in found.items() if result >= 0} == set(ALLOWED)


async def test_shells_and_their_tools_work(subject: Subject) -> None:
    script = (
        b"set -e; cd /tmp; mkdir d; echo a > d/f; cp d/f d/g; ln d/f d/h; ln -s f d/l; chmod 600 d/f;"
        b" cat d/f d/g d/l | wc -l; (sleep 0.01 & wait); dd if=/dev/zero of=z bs=1000 count=3 2>&1 |"
        b" head -1; cat <(echo p); rm -r d; exec 3<>/tmp/z; true"
    )
    text = await run(subject, b"bash", b"-c", script)
    assert text.split() == ["3", "3+0", "records", "in", "p"]


async def test_threads_sockets_and_processes_of_perl_work(subject: Subject) -> None:
    code = (
        b"pipe($r, $w); if (!fork) { syswrite $w, 'child'; exit 5 } wait;"
        b' sysread $r, $x, 9; print $x, $? >> 8, "\\n"; print `cat /etc/hostname`;'
        b' $SIG{ALRM} = sub { print "alarm\\n"; exit }; alarm 1; sleep 5;'
    )
    assert (await run(subject, b"perl", b"-e", code)).split() == ["child5", "sandbox", "alarm"]


async def test_x32_is_closed(subject: Subject) -> None:
    text = await run(subject, b"perl", b"-e", perl({"x32_getpid": (0x40000000 + 39,)}))
    # A refusal, or the caller's death.
    assert text == "" or parsed(text)["x32_getpid"][0] == -1
