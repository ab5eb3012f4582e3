"""Ways out over the network, and sockets of others."""

from __future__ import annotations

from typing import Final

from sandboxrun.checks.attempt import Attempt, Observation
from sandboxrun.checks.judging import failed, judged_by, listed, reads, refused
from sandboxrun.checks.probe import (
    Attempts,
    Excuse,
    Group,
    Judge,
    Probe,
    Seen,
    Severity,
    Verdict,
    held,
    not_applicable,
    opened,
)
from sandboxrun.checks.surroundings import Surroundings

_SECONDS: Final = 8.0
_INTERFACES: Final = Attempt("interfaces")
_METADATA: Final = ("169.254.169.254", "169.254.170.2", "169.254.170.23")
_OTHER_METADATA: Final = ("100.100.100.200", "192.0.0.192", "168.63.129.16", "192.168.65.7")
_METADATA_NAMES: Final = ("metadata.google.internal", "metadata.azure.internal", "instance-data")
_RESOLVERS: Final = ("127.0.0.11", "127.0.0.53", "127.0.0.1", "1.1.1.1", "8.8.8.8", "9.9.9.9")
_SIX_RESOLVERS: Final = ("2606:4700:4700::1111", "2001:4860:4860::8888")
_ENGINE_PORTS: Final = (2375, 2376, 2377, 4243, 8080, 10250, 10255, 6443)
_ALLOWED_SOCKETS: Final = frozenset(
    {("2", "stream", "0"), ("2", "stream", "6"), ("2", "dgram", "0"), ("2", "dgram", "17")}
    | {("10", "stream", "0"), ("10", "stream", "6"), ("10", "dgram", "0"), ("10", "dgram", "17")}
    | {("16", "dgram", "0"), ("16", "raw", "0")}
)
_UNIX: Final = "1"


def _tcp(host: str, port: int) -> Attempt:
    return Attempt("tcp", (host, str(port)), _SECONDS)


def _dns(server: str, name: str = "example.com") -> Attempt:
    return Attempt("dns", (server, name), _SECONDS)


def _udp(host: str, port: int) -> Attempt:
    return Attempt("udp", (host, str(port), "x"), _SECONDS)


def _only_loopback(found: Observation, _: Seen) -> Verdict:
    lines = [line for line in found.text.splitlines() if not line.startswith("lo ")]
    up = [line for line in lines if " up " in line]
    return opened(listed(up)) if up else held("only lo" if not lines else f"down: {listed(lines)}")


def _no_routes(attempts: tuple[Attempt, ...], seen: Seen) -> Verdict:
    four, six = (seen(each).text.splitlines() for each in attempts)
    routes = [line.split("\t")[0] for line in four[1:]]
    # Every kernel with IPv6 lists what it rejects, on lo.
    routes += [line.split()[-1] for line in six if line.split()[-1] != "lo"]
    return opened(f"routes on {listed(sorted(set(routes)))}") if routes else held("none")


def _no_answer(attempts: tuple[Attempt, ...], seen: Seen) -> Verdict:
    """Judge datagrams: one that was sent has left, whether or not something came back."""
    wrong = [
        f"{each}: {seen(each).text}"
        for each in attempts
        if seen(each).succeeded
        # On loopback it goes as far as the sandbox itself; there only an answer says something.
        and ("came back" in seen(each).text or not each.arguments[0].startswith("127."))
    ]
    return opened(listed(wrong)) if wrong else held("nothing left, nothing came back")


def _no_sockets_but_ours(found: Observation, _: Seen) -> Verdict:
    made = [tuple(line.split()) for line in found.text.splitlines()]
    unexpected = [each for each in made if each[0] != _UNIX and each not in _ALLOWED_SOCKETS]
    if found.cut or unexpected:
        return opened("family, type, protocol: " + listed(" ".join(each) for each in unexpected))
    return held(f"{len(made)} combinations, all of unix, TCP, UDP and route netlink")


def _only_route_netlink(found: Observation, _: Seen) -> Verdict:
    others = [line for line in found.text.split() if line != "0"]
    return opened(f"netlink protocols {listed(others)}") if others else held("only 0 (route)")


def _own_unix_sockets(found: Observation, _: Seen) -> Verdict:
    """Nothing in a network of our own but what the probe itself has, which is unnamed."""
    named = [
        line.split()[-1] for line in found.text.splitlines()[1:] if len(line.split()) > _UNNAMED
    ]
    return opened(listed(sorted(set(named)))) if named else held("none has a name")


_UNNAMED: Final = 7
"""Columns of a line of /proc/net/unix without a path."""


def _to_host(port: str) -> Attempts:
    def attempts(around: Surroundings) -> tuple[Attempt, ...]:
        if around.host is None or around.canaries is None:
            return ()
        chosen = around.canaries.tcp_port if port == "tcp" else around.canaries.udp_port
        kind = _tcp if port == "tcp" else _udp
        return tuple(kind(address, chosen) for address in _hosts(around))

    return attempts


def _hosts(around: Surroundings) -> tuple[str, ...]:
    found = () if around.host is None else around.host.addresses
    return tuple(dict.fromkeys((*found, "172.17.0.1", "10.88.0.1", "192.168.65.254")))


def _unreached(name: str) -> Judge:
    """Outside says more than inside: whether something arrived."""

    def judge(attempts: tuple[Attempt, ...], seen: Seen) -> Verdict:
        if not attempts:
            return not_applicable("the engine is on another machine, where no canary is")
        if name in seen.around.reached:
            return opened(f"something reached the {name} canary")
        return failed(attempts, seen)

    return judge


def _unix_canary(around: Surroundings) -> tuple[Attempt, ...]:
    return () if around.canaries is None else (Attempt("unix", (around.canaries.unix_path,)),)


def _abstract_canary(around: Surroundings) -> tuple[Attempt, ...]:
    if around.canaries is None:
        return ()
    return (Attempt("unix", (f"@{around.canaries.abstract}",)),)


def _engine_ports(around: Surroundings) -> tuple[Attempt, ...]:
    hosts = ("127.0.0.1", *_hosts(around), "192.168.65.7")
    return tuple(_tcp(host, port) for host in hosts for port in _ENGINE_PORTS)


def _own_network(found: Observation, seen: Seen) -> Verdict:
    if seen.around.host is None:
        return not_applicable("the engine is on another machine")
    same = found.text == seen.around.host.namespaces["net"]
    return opened(f"{found.text}, the host's") if same else held(found.text)


def _remote(around: Surroundings) -> bool:
    return around.host is None


_REMOTE: Final = (Excuse(_remote, "the engine is on another machine, where no canary is"),)


def _probe(
    name: str,
    severity: Severity,
    promise: str,
    judge: Judge,
    attempts: tuple[Attempt, ...] | Attempts,
    excuses: tuple[Excuse, ...] = (),
) -> Probe:
    return Probe(
        id=f"net.{name}",
        group=Group.NETWORK,
        severity=severity,
        promise=promise,
        attempts=attempts,
        judge=judge,
        excuses=excuses,
    )


_X, _E, _S = Severity.EXFIL, Severity.ESCAPE, Severity.SURFACE
NETWORK: Final = (
    _probe(
        "namespace",
        _X,
        "The network is not the host's.",
        judged_by(_own_network),
        (Attempt("readlink", ("/proc/self/ns/net",)),),
        _REMOTE,
    ),
    _probe(
        "interfaces_lo_only",
        _X,
        "No interface but loopback is up.",
        judged_by(_only_loopback),
        (_INTERFACES,),
    ),
    _probe(
        "no_routes",
        _X,
        "No route leads off loopback.",
        _no_routes,
        reads("/proc/net/route", "/proc/net/ipv6_route"),
    ),
    _probe(
        "tcp4_external",
        _X,
        "No TCP connection to a public IPv4 address.",
        failed,
        (_tcp("1.1.1.1", 443), _tcp("93.184.215.14", 80)),
    ),
    _probe(
        "tcp6_external",
        _X,
        "No TCP connection to a public IPv6 address.",
        failed,
        (_tcp("2606:4700:4700::1111", 443), _tcp("2001:4860:4860::8888", 53)),
    ),
    _probe(
        "udp_external",
        _X,
        "No datagram to a public address.",
        _no_answer,
        (_udp("1.1.1.1", 53), _udp("8.8.8.8", 443), _udp("2606:4700:4700::1111", 53)),
    ),
    _probe(
        "dns_servers",
        _X,
        "No resolver answers, local ones and the engine's included.",
        _no_answer,
        tuple(_dns(server) for server in (*_RESOLVERS, *_SIX_RESOLVERS)),
    ),
    _probe(
        "metadata_linklocal",
        _X,
        "Cloud metadata at 169.254.* is out of reach.",
        failed,
        (*(_tcp(host, 80) for host in _METADATA), _dns("169.254.169.253")),
    ),
    _probe(
        "metadata_other",
        _X,
        "Other metadata addresses are out of reach.",
        failed,
        tuple(_tcp(host, 80) for host in _OTHER_METADATA),
    ),
    _probe(
        "metadata_ipv6",
        _X,
        "Metadata over IPv6 is out of reach.",
        failed,
        (_tcp("fd00:ec2::254", 80), _tcp("fe80::a9fe:a9fe", 80)),
    ),
    _probe(
        "metadata_names",
        _X,
        "No resolver knows metadata's names.",
        _no_answer,
        tuple(
            _dns(server, name)
            for server in ("127.0.0.11", "127.0.0.53")
            for name in _METADATA_NAMES
        ),
    ),
    _probe(
        "host_tcp",
        _E,
        "A listener on the host is out of reach.",
        _unreached("tcp"),
        _to_host("tcp"),
        _REMOTE,
    ),
    _probe(
        "host_udp",
        _E,
        "A datagram does not reach the host.",
        _unreached("udp"),
        _to_host("udp"),
        _REMOTE,
    ),
    _probe(
        "host_unix",
        _E,
        "A unix socket of the host is out of reach by its path.",
        _unreached("unix"),
        _unix_canary,
        _REMOTE,
    ),
    _probe(
        "host_abstract",
        _E,
        "An abstract unix socket of the host is out of reach (CVE-2020-15257).",
        _unreached("abstract"),
        _abstract_canary,
        _REMOTE,
    ),
    _probe(
        "unix_sockets_visible",
        _E,
        "No named unix socket of others is visible.",
        judged_by(_own_unix_sockets),
        reads("/proc/net/unix"),
    ),
    _probe(
        "engine_api_tcp",
        _E,
        "No engine or cluster API answers over TCP (CVE-2025-9074).",
        failed,
        _engine_ports,
    ),
    _probe(
        "socket_families",
        _S,
        "Only unix, TCP, UDP and route netlink sockets can be made.",
        judged_by(_no_sockets_but_ours),
        (Attempt("sockets", (), 30.0),),
    ),
    _probe(
        "netlink",
        _S,
        "Of netlink only routes: no netfilter, no audit, no xfrm.",
        judged_by(_only_route_netlink),
        (Attempt("netlink"),),
    ),
    _probe(
        "raw_socket",
        _S,
        "No raw and no packet sockets.",
        refused,
        tuple(
            Attempt("socket", each)
            for each in (("2", "3", "1"), ("2", "3", "255"), ("10", "3", "58"), ("17", "3", "768"))
        ),
    ),
    _probe(
        "ping",
        _X,
        "No ICMP socket.",
        refused,
        (Attempt("socket", ("2", "2", "1")), Attempt("socket", ("10", "2", "58"))),
    ),
    _probe(
        "broadcast",
        _X,
        "Neither broadcast nor multicast can be sent.",
        failed,
        (Attempt("broadcast"),),
    ),
    _probe("admin", _S, "Interfaces cannot be configured.", refused, (Attempt("net-admin"),)),
    _probe("transparent", _S, "No foreign sender addresses.", refused, (Attempt("transparent"),)),
)
