#!/bin/sh
# Install Debian packages that are missing. Each argument is PACKAGE, or PROGRAM:PACKAGE where a program (a path,
# or a name on PATH) shows that nothing is to be done. Says what is missing where it may not install, and goes on: the
# program falls back, and tests that need the package say so.
set -u
missing=
for item in "$@"; do
    program=${item%%:*} package=${item#*:}
    if [ "$program" != "$package" ] || [ "${item#*:}" != "$item" ]; then
        PATH="$PATH:/usr/sbin:/sbin" command -v "$program" >/dev/null 2>&1 && continue
    elif dpkg-query -W -f '${db:Status-Status}\n' "$package" 2>/dev/null | grep -qx installed; then
        continue
    fi
    missing="$missing $package"
done
[ -z "$missing" ] && exit 0
if ! command -v apt-get >/dev/null 2>&1; then
    echo "missing:$missing; this is no Debian, please install them with your package manager" >&2
    exit 0
fi
run=
if [ "$(id -u)" != 0 ]; then
    if command -v sudo >/dev/null 2>&1 && sudo -n true 2>/dev/null; then
        run="sudo -n"
    else
        echo "missing:$missing; as root: apt-get install$missing" >&2
        exit 0
    fi
fi
echo "installing Debian packages:$missing"
# shellcheck disable=SC2086
{ DEBIAN_FRONTEND=noninteractive $run apt-get install -y -qq $missing >/dev/null 2>&1 ||
    { $run apt-get update -qq >/dev/null && DEBIAN_FRONTEND=noninteractive $run apt-get install -y -qq $missing >/dev/null; }; } ||
    echo "could not install:$missing; what needs them says so" >&2
exit 0
