package artifact

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"

	"nstance.dev/agent/paver/cache"
	"nstance.dev/agent/paver/digest"
	"nstance.dev/agent/paver/extract"
	"nstance.dev/agent/paver/inroot"
)

// Name names an artifact, as templates do.
type Name string

// Names of artifacts.
const (
	Kubelet    Name = "kubelet"
	Containerd Name = "containerd"
	Runc       Name = "runc"
	CNIPlugins Name = "cniPlugins"
	Crictl     Name = "crictl"
)

// Names are all of them.
func Names() []Name { return []Name{Kubelet, Containerd, Runc, CNIPlugins, Crictl} }

// ErrUnusable is matched by the error about an artifact or an image that has not what a node
// needs: trying again is pointless.
var ErrUnusable = errors.New("unusable")

const (
	programs = "usr/local/bin"
	plugins  = "opt/cni/bin"
)

// required are the programs without which an archive is not what its name says.
var required = map[Name][]string{
	Kubelet: {"kubelet"}, Containerd: {"containerd", "containerd-shim-runc-v2"}, Runc: {"runc"}, CNIPlugins: {"loopback"}, Crictl: {"crictl"},
}

// place says where a file of an archive goes.
func (n Name) place(file string, executable bool) (string, bool) {
	dir, base := path.Split(file)
	switch n {
	case Containerd:
		return path.Join(programs, base), path.Base(path.Clean(dir)) == "bin"
	case CNIPlugins:
		return path.Join(plugins, base), executable
	default:
		return path.Join(programs, base), base == required[n][0]
	}
}

// single is where an artifact goes that is a program; none for those that must be archives.
func (n Name) single() (string, bool) {
	return path.Join(programs, required[n][0]), len(required[n]) == 1 && n != CNIPlugins
}

// File is a program that was written.
type File struct {
	Path   string // in the tree, absolute
	Mode   fs.FileMode
	SHA256 string // hexadecimal
}

// IsInstalled says whether a path in a tree is one that artifacts are written to.
func IsInstalled(file string) bool {
	dir := strings.TrimPrefix(path.Dir(file), "/")
	return dir == programs || dir == plugins
}

// limits of an artifact, unpacked.
var limits = extract.Limits{Bytes: 4 << 30, Entries: 10_000}

// Install writes the programs of an artifact into the tree at dir, and returns what it has
// written, ordered by path.
func Install(ctx context.Context, dir string, name Name, blob *cache.Blob) ([]File, error) {
	written, err := unpack(ctx, dir, name, blob)
	if errors.Is(err, digest.ErrMismatch) {
		err = errors.Join(err, blob.Discard()) // it went bad on the disk
	}
	if errors.Is(err, extract.ErrRefused) {
		err = fmt.Errorf("%w: %w", ErrUnusable, err)
	}
	if err != nil {
		return nil, fmt.Errorf("artifact %s: %w", name, err)
	}
	for _, program := range required[name] {
		if !slices.ContainsFunc(written, func(f string) bool { return path.Base(f) == program }) {
			return nil, fmt.Errorf("artifact %s: %w: it does not hold %s", name, ErrUnusable, program)
		}
	}
	files, err := sums(dir, written)
	if err != nil {
		return nil, fmt.Errorf("artifact %s: %w", name, err)
	}
	return files, nil
}

// unpack writes the programs and returns their paths.
func unpack(ctx context.Context, dir string, name Name, blob *cache.Blob) (written []string, err error) {
	t, err := extract.Open(dir, limits)
	if err != nil {
		return nil, err
	}
	defer t.Close()
	raw, err := blob.Open()
	if err != nil {
		return nil, err
	}
	defer raw.Close()
	content, err := extract.Decompress(raw)
	if err != nil {
		return nil, err
	}
	defer content.Close()
	buffered := bufio.NewReader(content)
	if isArchive(buffered) {
		err = t.Programs(ctx, buffered, func(file string, executable bool) (string, bool) {
			at, ok := name.place(file, executable)
			if ok {
				written = append(written, at)
			}
			return at, ok
		})
	} else {
		written, err = one(ctx, t, name, buffered)
	}
	// The end of an archive need not be that of the file, whose digest counts.
	_, rest := io.Copy(io.Discard, raw)
	if errors.Is(rest, digest.ErrMismatch) {
		return nil, rest
	}
	return written, err
}

// isArchive tells a tar archive from a program.
func isArchive(r *bufio.Reader) bool {
	const at = 257
	head, err := r.Peek(at + len("ustar"))
	return err == nil && bytes.Equal(head[at:], []byte("ustar"))
}

// one writes an artifact that is a program itself.
func one(ctx context.Context, t *extract.Tree, name Name, content *bufio.Reader) ([]string, error) {
	at, ok := name.single()
	if !ok {
		return nil, fmt.Errorf("%w: it is not a tar archive", ErrUnusable)
	}
	// Compressed or not, its size shows at its end.
	data, err := io.ReadAll(io.LimitReader(content, maxProgram+1))
	if err != nil {
		return nil, err
	}
	if len(data) > maxProgram || len(data) < 4 || !isProgram(data) {
		return nil, fmt.Errorf("%w: it is neither a tar archive nor a program", ErrUnusable)
	}
	return []string{at}, t.Program(ctx, at, int64(len(data)), bytes.NewReader(data))
}

// maxProgram bounds a program that is not in an archive, bytes.
const maxProgram = 512 << 20

func isProgram(data []byte) bool {
	return bytes.HasPrefix(data, []byte("\x7fELF")) || bytes.HasPrefix(data, []byte("#!"))
}

// sums describes what was written.
func sums(dir string, written []string) ([]File, error) {
	root, err := inroot.Open(dir)
	if err != nil {
		return nil, err
	}
	defer root.Close() //nolint:errcheck // it was only read
	slices.Sort(written)
	var files []File
	for _, name := range slices.Compact(written) {
		data, err := root.Read(name, limits.Bytes)
		if err != nil {
			return nil, err
		}
		sum := sha256.Sum256(data)
		files = append(files, File{Path: "/" + strings.TrimPrefix(name, "/"), Mode: 0o755, SHA256: hex.EncodeToString(sum[:])})
	}
	return files, nil
}
