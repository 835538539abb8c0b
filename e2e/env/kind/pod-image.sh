# Archives of images for Pods, for scripts that make the root file systems of nodes: what a container
# runtime imports. They set work, a folder of their own, programs, where programs are, and arch.

# digest FILE
digest() { sha256sum "$1" | cut -d' ' -f1; }

# archive REFERENCE ENTRYPOINT LAYER... makes $work/image.tar of layers, which are archives of files.
archive() {
	local reference=$1 entrypoint=$2 dir=$work/image ids=() names=() layer
	shift 2
	rm -rf "$dir" && mkdir "$dir"
	for layer in "$@"; do
		ids+=("\"sha256:$(digest "$layer")\"")
		names+=("\"$(basename "$layer")\"")
		ln "$layer" "$dir"
	done
	local IFS=,
	printf '{"architecture":"%s","os":"linux","config":{"Env":["PATH=/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"],"Entrypoint":["%s"]},"rootfs":{"type":"layers","diff_ids":[%s]}}' \
		"$arch" "$entrypoint" "${ids[*]}" >"$dir/config.json"
	printf '[{"Config":"config.json","RepoTags":["%s"],"Layers":[%s]}]' "$reference" "${names[*]}" >"$dir/manifest.json"
	tar --create --directory "$dir" --file "$work/image.tar" .
}

# layer PROGRAM is an archive with it at /usr/local/bin.
layer() {
	mkdir -p "$work/$1/usr/local/bin"
	install "$programs/$1" "$work/$1/usr/local/bin/$1"
	tar --create --directory "$work/$1" --file "$work/$1.tar" .
	echo "$work/$1.tar"
}
