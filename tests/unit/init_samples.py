"""Kernel texts of real containers (Docker 20.10 with crun, cgroup v1; and a cgroup v2 host)."""

# ruff: noqa: W291 - the kernel pads with spaces

from __future__ import annotations

from sandboxrun.init.sections import encode_sections

STATUS = b"""\
Name:\tinit
Umask:\t0022
State:\tR (running)
Pid:\t1
Uid:\t2000001\t2000001\t2000001\t2000001
Gid:\t2000001\t2000001\t2000001\t2000001
Groups:\t2000001 
CapInh:\t0000000000000000
CapPrm:\t0000000000000000
CapEff:\t0000000000000000
CapBnd:\t00000000a80425fb
CapAmb:\t0000000000000000
NoNewPrivs:\t1
Seccomp:\t2
Seccomp_filters:\t1
"""
MOUNTINFO = b"""\
91 68 0:39 / / ro,relatime - overlay overlay rw,lowerdir=/a:/b,upperdir=/c,workdir=/d
92 91 0:42 / /proc rw,nosuid,nodev,noexec,relatime - proc proc rw
95 91 0:45 / /with\\040space ro shared:7 master:1 - sysfs sysfs rw
112 92 0:48 / /proc rw - tmpfs tmpfs rw,size=0k
"""
LIMITS = b"""\
Limit                     Soft Limit           Hard Limit           Units     
Max cpu time              unlimited            unlimited            seconds   
Max file size             1048576              1048576              bytes     
Max core file size        0                    0                    bytes     
Max open files            1024                 4096                 files     
Max nice priority         0                    0                    
Max realtime timeout      unlimited            unlimited            us        
"""
V1 = {
    "cgroup.memory.limit": b"536870912\n",
    "cgroup.memory.memsw": b"536870912\n",
    "cgroup.cpu.quota": b"50000\n",
    "cgroup.cpu.period": b"100000\n",
    "cgroup.pids.max": b"64\n",
}
V2 = {
    "cgroup.memory.max": b"536870912\n",
    "cgroup.memory.swap": b"0\n",
    "cgroup.cpu.max": b"max 100000\n",
    "cgroup.pids.max": b"max\n",
}
BASE = {
    "init": b"version=1\nuser_notification=1\n",
    "status": STATUS,
    "mountinfo": MOUNTINFO,
    "limits": LIMITS,
    "cgroup": b"4:memory:/x\n0::/\n",
    "fds": b"0\0pipe:[1]\x000100000\0" + b"1\0pipe:[2]\x000100001\0",
    "uids": b"2000001 2000001 2000001 2000001 2000001 2000001\n",
    "uname": b"Linux\n6.18.0\n#1 SMP\nx86_64\n",
    "hostname": b"sandbox",
    "env": b"PATH\0HOSTNAME\0",
}


def posture_payload(**changes: bytes | None) -> bytes:
    """Return a posture's payload; a change of None leaves a section out ("__" stands for ".")."""
    sections: dict[str, bytes | None] = {**BASE, **V1}
    sections.update({name.replace("__", "."): data for name, data in changes.items()})
    return encode_sections((name, data) for name, data in sections.items() if data is not None)
