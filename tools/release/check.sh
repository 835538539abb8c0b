#!/usr/bin/env bash
# usage: check.sh VERSION ARCH...
#
# Makes a release of HEAD twice: from two clones in two paths, as root and as nobody, with another
# umask, time zone and language, and compares all bytes. COLD=1 gives the second a build cache of its own,
# which is empty. Needs root.
set -euo pipefail

version=$1
shift
[ "$(id -u)" = 0 ] || {
	echo "to build as two users takes root" >&2
	exit 1
}
here=$(git rev-parse --show-toplevel)
work=$(mktemp -d "${TMPDIR:-/tmp}/release-check.XXXXXX")
trap 'rm -rf "$work"' EXIT
chmod 755 "$work"
one=$work/one two=$work/elsewhere/a-longer-path
git clone --quiet "$here" "$one"
mkdir -p "$(dirname "$two")" "$work/home"
git clone --quiet "$here" "$two"
make -C "$here" bin/tools/nfpm >/dev/null
for clone in "$one" "$two"; do
	mkdir -p "$clone/bin/tools"
	cp "$here/bin/tools/nfpm" "$clone/bin/tools/"
	touch "$clone/bin/tools/nfpm"
done
make -C "$one" release VERSION="$version" ARCHES="$*" >"$work/one.log" 2>&1 || {
	tail -30 "$work/one.log"
	exit 1
}
# The modules are the same ones, read only; nobody may read root's.
modules=$(go env GOMODCACHE) cache=$(go env GOCACHE) go=$(go env GOROOT)/bin
mkdir -p "$work/modules" "$work/cache"
chown -R nobody "$two" "$work/home" "$work/cache"
unshare --mount bash -euo pipefail -c '
	mount --bind -o ro "$1" "$2/modules"
	[ -n "${COLD:-}" ] || cp -rl "$3/." "$2/cache"
	find "$2/cache" -type d -exec chown nobody {} + # the files are those of root, by hard links
	exec setpriv --reuid=nobody --regid=nogroup --clear-groups env -i HOME="$2/home" PATH="$4:$PATH" \
		GOMODCACHE="$2/modules" GOCACHE="$2/cache" GOFLAGS="-mod=readonly -modcacherw" GOPROXY=off TZ=Asia/Tokyo LANG=C.UTF-8 \
		bash -c "umask 027; make -C \"\$1\" release VERSION=\"\$2\" ARCHES=\"\$3\"" _ "$5" "$6" "$7"
' _ "$modules" "$work" "$cache" "$go" "$two" "$version" "$*" >"$work/two.log" 2>&1 || {
	tail -30 "$work/two.log"
	exit 1
}
diff -r "$one/dist/release" "$two/dist/release" || {
	echo "the two releases differ" >&2
	exit 1
}
echo "two builds of $(git rev-parse --short HEAD), of $(cd "$one/dist/release" && find . -type f | wc -l) files, are equal"
