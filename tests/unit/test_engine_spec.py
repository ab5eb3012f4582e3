"""Plans become specs, specs become API bodies: exactly, and the same every time."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from sandboxrun.engine.dialect import dialect_for
from sandboxrun.engine.encode import encode_container, tmpfs_volumes, volume_options
from sandboxrun.engine.fake_store import FAKE_IMAGE, FAKE_INFO
from sandboxrun.engine.hardening import LaunchPlan, harden
from sandboxrun.engine.init_volume import InitVolume
from sandboxrun.engine.protocol import EngineInfo, EngineKind
from sandboxrun.engine.seccomp import seccomp_profile
from sandboxrun.engine.spec import ContainerSpec, VolumeSpec
from sandboxrun.errors import EngineError, ImageUnusableError
from sandboxrun.model.limits import Limits

DOCKER_V1 = replace(FAKE_INFO, kind=EngineKind.DOCKER, version="20.10.24", cgroup_version=1)
DOCKER_V2 = replace(DOCKER_V1, cgroup_version=2)
PODMAN_V1 = replace(DOCKER_V1, kind=EngineKind.PODMAN, version="4.3.1")


def plan(**changes: object) -> LaunchPlan:
    base = LaunchPlan(
        name="run-1",
        engine=DOCKER_V1,
        image=FAKE_IMAGE,
        limits=Limits(),
        uid=2_000_123,
        workspace="ws-1",
        read_only=False,
        init=InitVolume("init-1", "/mnt/init", "d" * 64, "now"),
        labels=(("a", "b"),),
    )
    return replace(base, **changes)  # type: ignore[arg-type]


def host_config(spec: ContainerSpec, info: EngineInfo) -> dict[str, object]:
    config = encode_container(spec, dialect_for(info))["HostConfig"]
    assert isinstance(config, dict)
    return config


def test_nothing_dangerous_is_ever_asked_for() -> None:
    for info in (DOCKER_V1, DOCKER_V2, PODMAN_V1):
        config = host_config(harden(plan(engine=info)), info)
        assert config["CapDrop"] == ["ALL"]
        assert config["CapAdd"] == []
        assert config["Privileged"] is False
        assert config["ReadonlyRootfs"] is True
        assert config["AutoRemove"] is False
        assert config["Memory"] == config["MemorySwap"] == Limits().memory_bytes
        assert config["LogConfig"] == {"Type": "none", "Config": {}}
        assert config["OomScoreAdj"] == 0
        assert "Binds" not in config
        assert "OomKillDisable" not in config
        assert "Devices" not in config
        options = config["SecurityOpt"]
        assert isinstance(options, list)
        assert options[0] == "no-new-privileges"
        assert not any("unconfined" in option for option in options)


def test_the_whole_body_for_docker() -> None:
    body = encode_container(harden(plan()), dialect_for(DOCKER_V1))
    assert body["Entrypoint"] == ["/.sandboxrun/sandboxrun-init"]
    assert body["Cmd"] == []
    assert body["User"] == "2000123:2000123"
    assert body["Env"] == ["PATH"]
    assert body["Hostname"] == "sandbox"
    assert (body["OpenStdin"], body["StdinOnce"], body["Tty"]) == (True, True, False)
    assert body["Healthcheck"] == {"Test": ["NONE"]}
    config = host_config(harden(plan()), DOCKER_V1)
    assert config["MemorySwappiness"] == 0
    assert config["NanoCpus"] == 2_000_000_000
    assert config["Tmpfs"] == {
        "/tmp": "rw,nosuid,nodev,exec,size=536870912,nr_inodes=65536,mode=1777",
        "/dev/shm": "rw,nosuid,nodev,noexec,size=67108864,nr_inodes=8192,mode=1777",
    }
    mounts = config["Mounts"]
    assert isinstance(mounts, list)
    assert [(each["Type"], each["Target"], each["ReadOnly"]) for each in mounts] == [
        ("volume", "/.sandboxrun", True),
        ("volume", "/workspace", False),
        ("bind", "/etc/hostname", True),
        ("bind", "/etc/hosts", True),
        ("bind", "/etc/resolv.conf", True),
    ]
    assert "/proc/interrupts" in str(config["MaskedPaths"])
    assert json.loads(str(config["SecurityOpt"]).split("seccomp=", 1)[1].rsplit("'", 1)[0])


def test_swappiness_is_only_for_version_1() -> None:
    assert "MemorySwappiness" not in host_config(harden(plan()), DOCKER_V2)


def test_podman_gets_what_it_understands() -> None:
    spec = harden(plan(engine=PODMAN_V1))
    config = host_config(spec, PODMAN_V1)
    body = encode_container(spec, dialect_for(PODMAN_V1))
    assert body["UnsetEnv"] == ["PATH"]
    assert body["Env"] == []
    assert "seccomp=/mnt/init/seccomp.json" in str(config["SecurityOpt"])
    assert "MaskedPaths" not in config
    assert "mask=/proc/acpi:" in str(config["SecurityOpt"])
    assert config["Tmpfs"] == dict.fromkeys(
        ("/run", "/var/tmp"), "rw,nosuid,nodev,noexec,size=1048576,mode=0755"
    )
    assert {"Name": "nproc", "Soft": 16384, "Hard": 16384} in list(config["Ulimits"])  # type: ignore[call-overload]
    ((mount, volume),) = tmpfs_volumes(spec, dialect_for(PODMAN_V1))
    assert mount.target == "/tmp"
    assert volume.name == "run-1.tmpfs-0"
    assert volume.labels == spec.labels
    assert dict(volume.options)["o"] == "nosuid,nodev,nr_blocks=131072,nr_inodes=65536,mode=1777"


def test_a_colon_cannot_be_masked_for_podman() -> None:
    spec = replace(harden(plan()), masked_paths=("/a:b",))
    with pytest.raises(EngineError):
        encode_container(spec, dialect_for(PODMAN_V1))


def test_a_joined_network_has_no_hostname_of_its_own() -> None:
    spec = harden(plan(network="container:abc"))
    assert "Hostname" not in encode_container(spec, dialect_for(DOCKER_V1))


@pytest.mark.parametrize(
    ("version", "cgroups", "private"),
    [("4.3.1", 1, False), ("4.3.1", 2, True), ("5.6.0", 1, True), ("5.5.9-dev", 1, False)],
)
def test_podman_and_its_cgroup_namespace(version: str, cgroups: int, private: bool) -> None:
    info = replace(PODMAN_V1, version=version, cgroup_version=cgroups)
    assert dialect_for(info).private_cgroup_namespace is private


def test_more_cpus_than_the_host_has_are_not_asked_for() -> None:
    few = replace(DOCKER_V1, cpus=1)
    assert harden(plan(engine=few)).nano_cpus == 1_000_000_000


def test_a_declared_volume_is_covered() -> None:
    image = replace(FAKE_IMAGE, volumes=("/data", "/workspace", "/tmp", "/data/"))
    targets = [mount.target for mount in harden(plan(image=image)).tmpfs]
    assert targets == ["/tmp", "/dev/shm", "/data"]


@pytest.mark.parametrize(
    "path",
    ["/", "relative", "/proc/x", "/dev", "/workspace/in", "/.sandboxrun", "/a:b", "/a,b", "/\n"],
)
def test_a_volume_that_cannot_be_covered_is_refused(path: str) -> None:
    with pytest.raises(ImageUnusableError):
        harden(plan(image=replace(FAKE_IMAGE, volumes=(path,))))


def test_overlay_options_are_split_for_podman() -> None:
    spec = VolumeSpec(
        "v",
        (),
        (
            ("type", "overlay"),
            ("device", "overlay"),
            ("o", "lowerdir=/a:/b,upperdir=/u,workdir=/w,index=off"),
        ),
    )
    assert volume_options(spec, dialect_for(DOCKER_V1)) == dict(spec.options)
    assert volume_options(spec, dialect_for(PODMAN_V1))["o"] == (
        "lowerdir+=/a,lowerdir+=/b,upperdir=/u,workdir=/w,index=off"
    )


def test_the_profile_is_an_allow_list() -> None:
    profile = json.loads(seccomp_profile())
    assert profile["defaultAction"] == "SCMP_ACT_ERRNO"
    allowed = {
        name
        for rule in profile["syscalls"]
        if rule["action"] == "SCMP_ACT_ALLOW"
        for name in rule["names"]
    }
    forbidden = [
        "mount",
        "umount2",
        "pivot_root",
        "fsopen",
        "fsconfig",
        "fsmount",
        "fspick",
        "open_tree",
        "move_mount",
        "mount_setattr",
        "unshare",
        "setns",
        "clone3",
        "process_vm_writev",
        "pidfd_getfd",
        "kcmp",
        "bpf",
        "userfaultfd",
        "perf_event_open",
        "keyctl",
        "add_key",
        "request_key",
        "io_uring_setup",
        "io_uring_enter",
        "io_uring_register",
        "quotactl",
        "quotactl_fd",
        "swapon",
        "swapoff",
        "reboot",
        "init_module",
        "finit_module",
        "delete_module",
        "settimeofday",
        "clock_settime",
        "clock_adjtime",
        "adjtimex",
        "acct",
        "open_by_handle_at",
        "name_to_handle_at",
        "lookup_dcookie",
        "nfsservctl",
        "vhangup",
        "kexec_load",
        "kexec_file_load",
        "syslog",
        "iopl",
        "ioperm",
        "chroot",
        "sethostname",
        "setdomainname",
        "fanotify_init",
        "uselib",
        "_sysctl",
        "modify_ldt",
    ]
    assert not allowed & set(forbidden)
    conditional = {name for rule in profile["syscalls"] if rule["args"] for name in rule["names"]}
    assert conditional == {"clone", "ioctl", "personality", "ptrace", "socket", "socketpair"}
    for rule in profile["syscalls"]:
        assert set(rule["names"]).isdisjoint(conditional) or rule["args"]
