#!/bin/sh
# Installs the packages named in packages.txt. Runs as root inside the new root file system:
# under chroot for the debootstrap builder, in a build stage for the Dockerfile builder.
# /.build holds the recipe; host/ in it, if present, the building machine's own apt settings.
set -eu
umask 022
export DEBIAN_FRONTEND=noninteractive LC_ALL=C.UTF-8

cat >/etc/dpkg/dpkg.cfg.d/sandboxrun <<'EXCLUDES'
# What is read by people only, or compiled against, isn't worth its space in a sandbox.
path-exclude=/usr/share/man/*
path-exclude=/usr/share/info/*
path-exclude=/usr/share/locale/*
path-exclude=/usr/share/lintian/*
path-exclude=/usr/lib/*/perl/*/CORE/*.h
path-exclude=/usr/share/doc/*
path-include=/usr/share/doc/*/copyright
EXCLUDES
# A tree that is thrown away if the build fails needs no syncs.
echo force-unsafe-io >/etc/dpkg/dpkg.cfg.d/sandboxrun-build
# No service may start while its package is installed.
printf '#!/bin/sh\nexit 101\n' >/usr/sbin/policy-rc.d
chmod 0755 /usr/sbin/policy-rc.d

if [ -s /.build/host/sources.list ]; then
	rm -rf /etc/apt/sources.list.d/*
	cp /.build/host/sources.list /etc/apt/sources.list
fi
if [ -s /.build/host/apt.conf ]; then
	cp /.build/host/apt.conf /etc/apt/apt.conf.d/95build-host
fi
if [ -d /.build/host/keyrings ]; then
	mkdir -p /etc/apt/keyrings
	cp /.build/host/keyrings/* /etc/apt/keyrings/
fi

apt() {
	apt-get -q -y -o APT::Install-Recommends=false -o Acquire::Languages=none \
		-o Acquire::Retries=3 "$@"
}
apt update
apt dist-upgrade
# shellcheck disable=SC2046 # package names are meant to be split
apt install $(sed -e 's/#.*//' /.build/packages.txt)
