"""Programs by what running them means, whatever their arguments."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

_NEVER: Final[Mapping[str, str]] = {
    "privilege.raise": "sudo su doas pkexec sudoedit runuser gosu su-exec run0 setpriv newgrp sg"
    " capsh sudo-rs calife super dzdo ksu gksu gksudo kdesudo sux please userdel",
    "privilege.account": "passwd chpasswd useradd usermod adduser deluser addgroup delgroup"
    " groupadd groupmod groupdel gpasswd chage chsh chfn vipw vigr visudo newusers pwconv"
    " grpconv chgpasswd newuidmap newgidmap",
    "privilege.setuid": "setcap setfacl_root",
    "escape.namespace": "unshare nsenter chroot pivot_root switch_root ip-netns lsns-enter"
    " machinectl systemd-nspawn bwrap runc crun ctr nerdctl crictl lxc lxc-attach lxd kata-runtime"
    " arch-chroot schroot proot chroot.static",
    "escape.mount": "umount mount.nfs mount.cifs fusermount fusermount3 losetup swapon swapoff"
    " sshfs cryptsetup",
    "escape.module": "insmod modprobe rmmod kmod depmod kexec dkms bpftool bpftrace systemtap stap",
    "escape.kernel": "mknod chattr setenforce aa-disable aa-teardown apparmor_parser",
    "escape.firewall": "iptables ip6tables iptables-restore ip6tables-restore iptables-legacy"
    " iptables-nft ebtables arptables nft ufw firewall-cmd ipset pfctl",
    "power": "shutdown reboot halt poweroff telinit init pm-suspend pm-hibernate",
    "kill.all": "killall5",
    "device.format": "wipefs fdisk sfdisk cfdisk gdisk sgdisk cgdisk parted partprobe mkswap"
    " blkdiscard hdparm badblocks mdadm lvremove vgremove pvremove lvcreate vgcreate pvcreate"
    " lvreduce zpool debugfs tune2fs e2fsck fsck resize2fs xfs_repair nvme sg_format partclone"
    " dcfldd ddrescue mke2fs newfs growfs grub-install efibootmgr flashrom fwupdmgr btrfs-convert",
}
_ASK: Final[Mapping[str, str]] = {
    "network.use": "ping ping6 fping dig nslookup host whois traceroute tracepath mtr nmap telnet ftp"
    " sftp tftp lftp ncftp ssh-copy-id sshpass mosh autossh rclone aria2c axel httpie http https"
    " xh lynx w3m links elinks youtube-dl yt-dlp cvs mail mailx mutt sendmail"
    " msmtp swaks websocat wscat grpcurl iperf iperf3 tcpdump tshark arping hping3 masscan zmap"
    " nikto sqlmap hydra rsh rlogin rcp rexec s3cmd s5cmd smbclient showmount rpcinfo snmpwalk"
    " ldapsearch ngrok cloudflared tor torsocks proxychains chisel frpc wg wg-quick openvpn"
    " speedtest-cli speedtest whois geoiplookup trivy grype snyk gh glab hub tea act lftpget"
    " curlie wuzz mc-client minio-mc kinit git-lfs ipfs transmission-cli aws-vault huggingface-cli"
    " ollama openai claude codex gemini aider wrangler-tail sentry-cli codecov",
    "network.install": "apt apt-get aptitude apt-key add-apt-repository apk yum dnf microdnf"
    " zypper pacman yay emerge brew port snap flatpak nix-env nix-channel guix pkg pkg_add gem"
    " rustup nvm fnm n volta pyenv rbenv jenv sdk asdf mise pipx uvx bunx luarocks cpan cpanm"
    " opam vcpkg conan choco winget scoop tlmgr easy_install pip-sync pip-compile bower jspm"
    " ansible-galaxy krew helmfile vagrant-plugin dpkg rpm softwareupdate npm-check-updates ncu",
    "network.publish": "twine vercel netlify firebase surge gh-pages fly flyctl heroku railway"
    " wrangler eas expo-publish fastlane dput now pages",
    "engine.use": "docker-compose podman-compose buildah skopeo kind minikube k3d k3s colima lima"
    " limactl nerdctl-compose dockerd containerd buildctl devcontainer vagrant packer multipass"
    " virsh qemu-img-remote VBoxManage",
    "cluster.use": "kubectl helm oc kustomize-apply terraform tofu pulumi terragrunt cdk sam"
    " serverless sls ansible ansible-playbook ansible-pull salt chef-client puppet knife aws gcloud"
    " gsutil bq az doctl linode-cli hcloud ibmcloud oci eksctl kops istioctl argocd flux velero"
    " nomad consul vault waypoint boundary copilot amplify eb ecs-cli kubeadm kubelet stern k9s"
    " cf bosh rancher openstack databricks snowsql",
    "database.use": "psql mysql mariadb mysqladmin mysqldump mongosh mongo redis-cli pg_dump"
    " pg_restore pg_dumpall createdb createuser pg_ctl mysqlimport influx cqlsh clickhouse-client"
    " etcdctl cockroach sqlcmd sqlplus bsqldb rabbitmqctl kafka-topics mongodump mongorestore"
    " mongoimport neo4j-admin cypher-shell",
    "delete.data": "dropdb dropuser",
    "service.control": "fuser systemctl service rc-service rc-update initctl launchctl chkconfig"
    " update-rc.d loginctl supervisorctl pm2-startup crontab at batch atrm anacron systemd-run"
    " pkill killall skill snice renice monit journalctl-vacuum logrotate invoke-rc.d sc",
    "system.setting": "timedatectl localectl hostnamectl date-set hwclock route brctl ethtool"
    " iwconfig iw nmcli tc update-alternatives ldconfig locale-gen dpkg-reconfigure sysctl-write"
    " setterm loadkeys xrandr xinput tzselect resolvectl resolvconf netplan quotaon setquota",
    "delete.shred": "srm wipe sfill scrub",
}


def _by_name(table: Mapping[str, str]) -> dict[str, str]:
    return {name: code for code, names in table.items() for name in names.split()}


_NEVER_BY_NAME: Final = _by_name(_NEVER)
_ASK_BY_NAME: Final = _by_name(_ASK)
_NEVER_PREFIX: Final = re.compile(r"mount\.|ldattach$")
RAISERS: Final = frozenset(_NEVER["privilege.raise"].split()) | {"unshare", "nsenter", "chroot"}

LOCAL_TOOLS: Final = frozenset(
    "pip pip3 node npm npx yarn pnpm bash sh dash zsh perl ruby php lua rm find xargs git".split()
)
"""Programs that a project keeps copies of: their rules hold there as well, proofs do not."""

DANGEROUS_NAMES: Final = (
    "sudo", "su", "doas", "pkexec", "rm", "dd", "chmod", "chown", "mkfs", "cat", "bash", "sh",
    "nc", "shred", "mount", "nsenter", "unshare", "chroot", "reboot", "shutdown", "halt",
    "insmod", "modprobe", "python3", "curl", "wget", "mv", "cp", "env",
)  # fmt: skip
"""What a pattern in a command's name is tried against."""

VERSIONED: Final = frozenset(
    "python python2 python3 node npm npx yarn pnpm bun deno go cargo rustc rustup gcc g++"
    " clang clang++ cc make cmake ninja meson bazel java javac kotlin kotlinc scala sbt"
    " gradle mvn ant ruby gem bundle bundler rake irb perl php composer lua luajit R Rscript"
    " julia ghc cabal stack dotnet swift zig nim elixir mix erl docker podman kubectl helm"
    " terraform git gh ssh curl wget tar gzip zip unzip bash zsh fish dash sed awk gawk grep"
    " rg fd jq yq find xargs sort ls cat vim nvim nano emacs tmux screen pip pip3 pipx poetry"
    " pipenv uv ruff black mypy flake8 pylint pytest tox nox isort pyright eslint prettier"
    " tsc jest vitest mocha webpack vite rollup esbuild turbo nx lerna shellcheck shfmt"
    " hadolint psql mysql sqlite3 redis-cli mongosh openssl ffmpeg convert magick pandoc aws"
    " gcloud az ansible vagrant gdb lldb strace valgrind nasm ld as objdump nm readelf rsync"
    " scp nc ncat socat htop less man make cppcheck clang-format clang-tidy protoc ldd"
    " docker-compose docker-buildx kustomize minikube kind buf grpcurl hugo jekyll nginx"
    " httpd apachectl systemctl uname bc dc tree".split()
)
USUAL_VERSION_OPTIONS: Final = frozenset({"--version", "--help", "-V"})
VERSION_OPTIONS: Final[Mapping[str, frozenset[str]]] = {
    "node": frozenset({"--version", "-v", "--help"}),
    "npm": frozenset({"--version", "-v", "--help"}),
    "npx": frozenset({"--version", "-v", "--help"}),
    "yarn": frozenset({"--version", "-v", "--help"}),
    "pnpm": frozenset({"--version", "-v", "--help"}),
    "go": frozenset({"version"}),
    "java": frozenset({"-version", "--version"}),
    "javac": frozenset({"-version", "--version"}),
    "docker": frozenset({"--version", "-v", "--help"}),
    "podman": frozenset({"--version", "-v", "--help"}),
    "gcc": frozenset({"--version", "-v", "--help", "-dumpversion", "-dumpmachine"}),
    "g++": frozenset({"--version", "-v", "--help", "-dumpversion"}),
    "clang": frozenset({"--version", "-v", "--help"}),
    "make": frozenset({"--version", "-v", "--help"}),
    "ruby": frozenset({"--version", "-v", "--help"}),
    "php": frozenset({"--version", "-v", "--help"}),
    "perl": frozenset({"--version", "-v", "--help"}),
    "lua": frozenset({"-v"}),
    "mvn": frozenset({"--version", "-v", "--help"}),
    "gradle": frozenset({"--version", "-v", "--help"}),
    "terraform": frozenset({"version", "--version", "-v", "--help"}),
    "helm": frozenset({"version", "--help"}),
    "swift": frozenset({"--version", "--help"}),
    "zig": frozenset({"version"}),
    "openssl": frozenset({"version", "help"}),
    "ffmpeg": frozenset({"-version", "-h"}),
    "composer": frozenset({"--version", "-V", "--help"}),
    "ssh": frozenset({"-V"}),
    "tmux": frozenset({"-V"}),
    "dotnet": frozenset({"--version", "--info", "--help"}),
    "nginx": frozenset({"-v", "-V"}),
    "git": frozenset({"--version", "version", "--help"}),
    "convert": frozenset({"-version", "--version"}),
    "erl": frozenset({"-version"}),
    "curl": frozenset({"--version", "-V", "--help", "-h"}),
    "zip": frozenset({"-v", "-h"}),
    "unzip": frozenset({"-v", "-h"}),
    "systemctl": frozenset({"--version", "--help"}),
}


def never_code(name: str) -> str | None:
    """Return the finding that running ``name`` is, whatever its arguments."""
    if _NEVER_PREFIX.match(name):
        return "escape.mount"
    return _NEVER_BY_NAME.get(name)


def ask_code(name: str) -> str | None:
    """Return the finding for a program that needs more than the sandbox gives unasked."""
    return _ASK_BY_NAME.get(name)


_PREFIXES: Final = (
    ("mkfs.", "mkfs"),
    ("python3.", "python3"),
    ("python2.", "python3"),
    ("pip3.", "pip3"),
    ("perl5", "perl"),
    ("ruby2", "ruby"),
    ("ruby3", "ruby"),
    ("node-", "node"),
    ("php7", "php"),
    ("php8", "php"),
    ("lua5", "lua"),
    ("ld-linux", "ld.so"),
    ("ld-musl", "ld.so"),
    ("busybox.", "busybox"),
)


def unversioned(name: str) -> str | None:
    """Return the program that ``name`` is a version or a kind of, or None."""
    return next((known for prefix, known in _PREFIXES if name.startswith(prefix)), None)
