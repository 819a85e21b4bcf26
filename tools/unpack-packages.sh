#!/bin/sh
# Unpack Debian packages into a directory, without installing them: tests start a kernel in a virtual machine, and a
# docker daemon of their own beside the machine's. Each argument after the directory is PATTERN:PACKAGE; a file in the
# directory that matches the pattern shows that nothing is to be done. Of a package without files, such as
# linux-image-cloud-amd64, the first one that it depends on is taken. Says what is missing where it cannot, and goes on.
set -u
directory=$1
shift
mkdir -p "$directory" && cd "$directory" || exit 0
for item in "$@"; do
    pattern=${item%%:*} package=${item#*:}
    # shellcheck disable=SC2086
    [ -n "$(ls -d $pattern 2>/dev/null)" ] && continue
    case $package in
        linux-image-*) package=$(apt-cache depends --important "$package" 2>/dev/null | sed -n 's/.*Depends: *//p' | head -n1) ;;
    esac
    if [ -z "$package" ] || ! apt-get download -qq "$package" >/dev/null 2>&1; then
        echo "could not fetch ${item#*:}; tests that need it say so" >&2
        continue
    fi
    echo "unpacking $package into $directory"
    dpkg -x "$package"_*.deb . && rm -- "$package"_*.deb
done
exit 0
