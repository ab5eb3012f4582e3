#!/bin/sh
# Turns a Debian root file system with the packages installed into the workspace image.
# Runs as root inside it, after install.sh, for both builders.
set -eu
umask 022

# The archive's own date, for the builder that clamps file times to it.
cat /var/lib/apt/lists/*Release | sed -n 's/^Date: //p' >/.build/release-dates

# One name for a pool of uids: whichever a run gets, `whoami` and `git` know it.
grep -v '^agent:' /etc/passwd >/.build/passwd
cat /.build/passwd /.build/passwd.pool >/etc/passwd
grep -v '^agent:' /etc/group >/.build/group
cat /.build/group /.build/group.pool >/etc/group
rm -f /etc/passwd- /etc/group- /etc/shadow- /etc/gshadow- /etc/.pwd.lock
# Days of the last password change would differ with the day of the build.
sed -i 's/^\([^:]*:[^:]*\):[0-9]*:/\1:1:/' /etc/shadow

cp /.build/gitconfig /etc/gitconfig
chmod 0644 /etc/passwd /etc/group /etc/gitconfig
# No /workspace: engines make the mount point, and Podman would give every workspace the owner and
# mode of the image's directory.
rmdir /workspace 2>/dev/null || true

# Nothing may raise privileges, even where a container is started without no-new-privileges.
find / -xdev '(' -type f -o -type d ')' -perm /6000 -exec chmod ug-s {} +

# The building machine's settings stay with the building machine. Engines mount files of their
# own over some of these while they build: then they can be emptied, but not removed.
rm -f /etc/apt/apt.conf.d/95build-host /usr/sbin/policy-rc.d /etc/dpkg/dpkg.cfg.d/sandboxrun-build
rm -rf /etc/apt/keyrings /etc/apt/sources.list.d/*
echo '# No sources: commands have no network.' >/etc/apt/sources.list
: >/etc/resolv.conf
: >/etc/hostname

# What only takes space, or tells when and where the image was built.
find /usr/share/doc -mindepth 1 -not -type d -not -name copyright -delete
find /usr/share/doc -mindepth 1 -type d -empty -delete
find /var/log /tmp /var/tmp -xdev -mindepth 1 -delete
# Podman mounts files of its own here while it builds; they are busy, and not in the image.
find /run -xdev -mindepth 1 -delete 2>/dev/null || true
rm -rf /usr/share/man/* /usr/share/info/* /usr/share/locale/* /usr/share/lintian/* \
	/var/lib/apt/lists/* /var/cache/apt/* /var/cache/debconf/*-old /var/cache/ldconfig/aux-cache \
	/var/lib/dpkg/*-old /root/.[!.]* /etc/machine-id /var/lib/dbus/machine-id
