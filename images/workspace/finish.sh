#!/bin/sh
# Turns a Debian root file system with the packages installed into the workspace image.
# Runs as root inside it, after install.sh, for both builders.
set -eu

# The archive's own date, for the builder that clamps file times to it.
cat /var/lib/apt/lists/*Release 2>/dev/null | sed -n 's/^Date: //p' >/.build/release-dates || true

# One name for a pool of uids: whichever a run gets, `whoami` and `git` know it.
grep -v '^agent:' /etc/passwd >/.build/passwd && cat /.build/passwd /.build/passwd.pool >/etc/passwd
grep -v '^agent:' /etc/group >/.build/group && cat /.build/group /.build/group.pool >/etc/group
rm -f /etc/passwd- /etc/group- /etc/shadow- /etc/gshadow-
# Days of the last password change would differ with the day of the build.
sed -i 's/^\([^:]*:[^:]*\):[0-9]*:/\1:1:/' /etc/shadow

cp /.build/gitconfig /etc/gitconfig
chmod 0644 /etc/passwd /etc/group /etc/gitconfig
mkdir -p /workspace
chmod 0755 /workspace

# Nothing may raise privileges, even where a container is started without no-new-privileges.
find / -xdev -perm /6000 -exec chmod ug-s {} +

# The building machine's apt settings stay with the building machine.
rm -f /etc/apt/apt.conf.d/95build-host /usr/sbin/policy-rc.d
rm -rf /etc/apt/keyrings /etc/apt/sources.list.d/*
echo '# No sources: commands have no network. `sandboxrun image derive` adds packages.' \
	>/etc/apt/sources.list

# What only takes space, or tells when and where the image was built.
find /usr/share/doc -mindepth 1 -not -type d -not -name copyright -delete
find /usr/share/doc -mindepth 1 -type d -empty -delete
rm -rf /usr/share/man/* /usr/share/info/* /usr/share/locale/* /usr/share/lintian/* \
	/var/lib/apt/lists/* /var/cache/apt/* /var/cache/debconf/*-old /var/cache/ldconfig/aux-cache \
	/var/lib/dpkg/*-old /var/log/* /tmp/* /var/tmp/* /run/* /root/.[!.]* \
	/etc/machine-id /var/lib/dbus/machine-id
