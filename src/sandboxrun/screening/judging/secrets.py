"""Where credentials lie."""

from __future__ import annotations

import re
from typing import Final

from sandboxrun.screening.judging.paths import matches
from sandboxrun.screening.reading import marks
from sandboxrun.screening.reading.marks import HOME_PATH

_IN_HOME: Final = (
    ".ssh", ".aws", ".azure", ".kube", ".gnupg", ".docker/config.json", ".docker/contexts",
    ".config/gh", ".config/hub", ".config/glab-cli", ".config/gcloud", ".config/doctl",
    ".config/op", ".config/rclone", ".config/containers/auth.json", ".config/composer/auth.json",
    ".config/helm/registry", ".config/heroku", ".config/fly", ".config/netlify", ".config/vercel",
    ".config/google-chrome", ".config/chromium", ".config/BraveSoftware", ".config/configstore",
    ".config/anthropic", ".config/openai", ".config/sops", ".config/age", ".config/pip/pip.conf",
    ".config/git/credentials", ".config/pypoetry/auth.toml", ".config/hcloud", ".config/stripe",
    ".npmrc", ".yarnrc.yml", ".pypirc", ".netrc", "_netrc", ".git-credentials", ".pgpass",
    ".my.cnf", ".mylogin.cnf", ".vault-token", ".password-store", ".local/share/keyrings",
    ".local/share/kwalletd", ".mozilla", ".thunderbird", ".cargo/credentials",
    ".cargo/credentials.toml", ".gem/credentials", ".bundle/config", ".m2/settings.xml",
    ".m2/settings-security.xml", ".gradle/gradle.properties", ".terraformrc",
    ".terraform.d/credentials.tfrc.json", ".boto", ".s3cfg", ".oci", ".ibmcloud", ".bluemix",
    ".databrickscfg", ".kaggle", ".huggingface/token", ".cache/huggingface/token", ".claude",
    ".claude.json", ".codex", ".gemini", ".composer/auth.json", ".nuget/NuGet/NuGet.Config",
    ".fly", ".netlify", ".vercel", ".snowsql", ".dbt/profiles.yml", ".circleci/cli.yml",
    ".travis", ".htpasswd", ".Xauthority", ".ICEauthority", ".pulumi/credentials.json",
    "Library/Keychains", "Library/Application Support/Google/Chrome", ".lastpass", ".credentials",
)  # fmt: skip
_ABSOLUTE: Final = (
    "/etc/shadow", "/etc/shadow-", "/etc/gshadow", "/etc/gshadow-", "/etc/sudoers",
    "/etc/sudoers.d", "/etc/krb5.keytab", "/etc/ssl/private", "/etc/security/opasswd",
    "/etc/kubernetes", "/etc/rancher", "/etc/docker/key.json", "/etc/master.passwd",
    "/etc/letsencrypt", "/etc/wireguard", "/etc/openvpn", "/etc/ipsec.secrets", "/etc/ppp",
    "/etc/NetworkManager/system-connections", "/etc/mysql/debian.cnf", "/etc/netplan",
    "/run/secrets", "/var/run/secrets", "/var/lib/docker", "/var/lib/kubelet",
    "/var/lib/containerd", "/var/lib/containers", "/var/lib/sss", "/var/lib/private",
    "/var/lib/cloud", "/proc/kcore", "/dev/mem", "/dev/kmem", "/var/spool/cron",
)  # fmt: skip
_STORES: Final = tuple(f"{HOME_PATH}/{path}" for path in _IN_HOME) + _ABSOLUTE
_HOST_KEY: Final = re.compile(r"/etc/ssh/ssh_host_\w+_key$")
_PROCESS: Final = re.compile(
    r"/proc/(?:\d+|[^/]*[\ue000-\uf8ff][^/]*|(?:self|thread-self)(?=/mem|/root))"
    r"(?:/task/[^/]+)?/(?:environ|mem|maps|root|cwd|exe|fd|fdinfo|auxv|stack|syscall|ns)(?:/|$)"
)
SOCKETS: Final = re.compile(
    r"(?:^|/)(?:docker|containerd|podman|crio|cri-dockerd|buildkitd|dockershim)\.sock$"
)
"""Sockets of container engines, by name: having one is being root on its host."""
METADATA: Final = re.compile(
    r"169\.254\.169\.254|169\.254\.170\.2|metadata\.google\.internal|metadata\.azure\.|"
    r"100\.100\.100\.200|fd00:ec2::254|\b2852039166\b|0x[aA]9[fF][eE][aA]9[fF][eE]|"
    r"0251\.0376\.0251\.0376|0xa9\.0xfe\.0xa9\.0xfe|169\.254\.43518|instance-data\b|"
    r"\[::ffff:169\.254\.169\.254\]|::ffff:a9fe:a9fe|169\.16689662",
    re.IGNORECASE,
)
"""Addresses of cloud metadata services, in the spellings programs accept."""
_TEMPLATE: Final = re.compile(r"\.(?:example|sample|template|dist|defaults?|tpl|tmpl|schema|test)$")
_PROJECT: Final = re.compile(r"\.env(?:\.[\w.-]+)?$|\.envrc$")
_KEY_NAMES: Final = re.compile(
    r"(?:id_(?:rsa|dsa|ecdsa|ed25519)|\.netrc|\.pgpass|\.git-credentials|shadow|credentials|"
    r"\.npmrc|\.pypirc|kubeconfig|\.aws|\.ssh|\.gnupg)\b.*|.*\.(?:key|pem|p12|pfx|kdbx|jks|keystore)"
)


def is_secret(path: str) -> bool:
    """Tell whether a resolved path names, or lies in, a credential store outside the workspace."""
    if not path.startswith("/") or (path.isascii() and path.startswith("/workspace/")):
        return False
    if path.endswith(".pub") or (marks.has_glob(path) and path.endswith(".pub")):
        return False
    if SOCKETS.search(path) or _HOST_KEY.match(path) or _PROCESS.match(path):
        return True
    # What is not known at all is no sign of anything; the part before it may be.
    path = "/".join(path.split("/")[: _known(path)])
    return any(matches(path, store) for store in _STORES if _near(path, store))


_ANYTHING: Final = re.compile(f"[{marks.UNKNOWN}{marks.SPLAT}]+")


def _known(path: str) -> int:
    """Return how many components stand before the first that is wholly unknown."""
    parts = path.split("/")
    return next((i for i, part in enumerate(parts) if _ANYTHING.fullmatch(part)), len(parts))


def _near(path: str, store: str) -> bool:
    """Cheaply rule out stores: a first component that is plain must be the same."""
    first = path[1:].partition("/")[0]
    other = store[1:].partition("/")[0]
    return first == other or not first.isascii()


def holds_secrets(path: str) -> bool:
    """Tell whether a credential store lies below the directory that a resolved path names."""
    if path == "/":
        return True
    depth = path.count("/")
    return any(
        matches("/".join(store.split("/")[: depth + 1]), path)
        for store in _STORES
        if store.count("/") > depth
    )


def is_project_secret(path: str) -> bool:
    """Tell whether a path is a project's own file of secrets, such as ``.env``."""
    name = path.rpartition("/")[2]
    if not name.startswith(".env") and not marks.has_glob(name[:3]):
        return False
    if marks.has_glob(name):
        return name.startswith(".") and any(
            _glob_could_be(name, secret) for secret in (".env", ".env.local", ".env.production")
        )
    return bool(_PROJECT.match(name)) and not _TEMPLATE.search(name)


_HISTORY: Final = re.compile(
    rf"(?:{HOME_PATH}|/root|/home/[^/]+)/(?:\.\w+_history|\.lesshst|\.viminfo|\.local/share/fish/.*)"
)


def is_history(path: str) -> bool:
    """Tell whether a resolved path is where a program keeps what somebody typed."""
    return _HISTORY.fullmatch(path) is not None


def _glob_could_be(pattern: str, name: str) -> bool:
    return matches("/" + pattern, "/" + name, below=False)


def is_key_name(pattern: str) -> bool:
    """Tell whether a file name, or a pattern for one, is that of a credential."""
    return (
        _KEY_NAMES.fullmatch(marks.plain(pattern).rpartition("/")[2].lstrip("*") or "-") is not None
    )
