package manifest

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	nstancev1 "nstance.dev/protos/nstance/v1"

	"nstance.dev/agent/paver/render"
)

// Roots are the directories that the paths of each place begin at.
type Roots map[render.Place]string

// Result is what a comparison has found.
type Result struct {
	// Drift are the differences, ordered by place and path, at most [MaxDrift].
	Drift []*nstancev1.MachineDrift
	// Total is how many there are.
	Total int
	// Manifest is the one that was compared, with what is known of metadata by now.
	Manifest Manifest
	// Read is how many files were read, because their metadata had changed or was not known.
	Read int
}

// Compare looks at each entry. A file that cannot be looked at is neither gone nor changed: it
// is part of the error, and the others are in the result all the same. It ends early only with ctx.
func (m Manifest) Compare(ctx context.Context, roots Roots) (Result, error) {
	r := Result{Manifest: Manifest{slices.Clone(m.entries)}}
	opened := map[render.Place]*os.File{}
	defer func() {
		for _, dir := range opened {
			dir.Close()
		}
	}()
	var errs []error
	for place, name := range roots {
		dir, err := os.OpenFile(name, unix.O_PATH|unix.O_DIRECTORY, 0)
		if err != nil {
			errs = append(errs, fmt.Errorf("compare files of %s: %w", place, err))
			continue
		}
		opened[place] = dir
	}
	for i := range r.Manifest.entries {
		if err := ctx.Err(); err != nil {
			return r, err
		}
		e := &r.Manifest.entries[i]
		root, there := opened[e.Place]
		if !there {
			continue
		}
		found, err := e.compare(ctx, root, &r.Read)
		if err != nil {
			errs = append(errs, fmt.Errorf("compare %s %s: %w", e.Place, e.Path, err))
			continue
		}
		if found == nstancev1.MachineDriftKind_MACHINE_DRIFT_KIND_UNSPECIFIED {
			continue
		}
		if r.Total++; len(r.Drift) < MaxDrift {
			r.Drift = append(r.Drift, &nstancev1.MachineDrift{Path: e.Path, Kind: found})
		}
	}
	return r, errors.Join(errs...)
}

const (
	same    = nstancev1.MachineDriftKind_MACHINE_DRIFT_KIND_UNSPECIFIED
	changed = nstancev1.MachineDriftKind_MACHINE_DRIFT_KIND_CHANGED
	missing = nstancev1.MachineDriftKind_MACHINE_DRIFT_KIND_MISSING
)

// compare says how the file differs from what was written, and notes its metadata if it does
// not. The file is in the hands of the machine: it may be anything, a pipe or a link to
// somewhere else included.
func (e *Entry) compare(ctx context.Context, root *os.File, read *int) (nstancev1.MachineDriftKind, error) {
	fd, err := openBelow(root, e.Path, unix.O_PATH)
	if gone(err) {
		return missing, nil
	}
	if err != nil {
		return same, err
	}
	f := os.NewFile(uintptr(fd), e.Path)
	defer f.Close()
	seen, err := metadata(fd)
	if err != nil {
		return same, err
	}
	known := e.Seen != Metadata{}
	switch {
	case known && seen == e.Seen:
		return same, nil
	case known && (seen.UID != e.Seen.UID || seen.GID != e.Seen.GID):
		return changed, nil
	case e.Link != "":
		target, err := linkTarget(fd, seen)
		if err != nil || target != e.Link {
			return changed, err
		}
	case seen.Mode&unix.S_IFMT != unix.S_IFREG, seen.Mode&0o7777 != uint32(e.Mode.Perm()), known && seen.Size != e.Seen.Size:
		return changed, nil
	default:
		*read++
		sum, err := contentSum(ctx, root, e.Path, seen)
		if gone(err) {
			return missing, nil
		}
		if err != nil || sum != e.SHA256 {
			return changed, err
		}
	}
	e.Seen = seen
	return same, nil
}

// openBelow opens a path below a root, whose links lead nowhere out of it. The last element is
// not followed.
func openBelow(root *os.File, name string, flags uint64) (int, error) {
	return unix.Openat2(int(root.Fd()), strings.TrimPrefix(name, "/"), &unix.OpenHow{
		Flags:   flags | unix.O_NOFOLLOW | unix.O_CLOEXEC,
		Resolve: unix.RESOLVE_IN_ROOT | unix.RESOLVE_NO_MAGICLINKS,
	})
}

// gone says whether an error means that nothing is at a path.
func gone(err error) bool {
	return errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.ELOOP)
}

func metadata(fd int) (Metadata, error) {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return Metadata{}, os.NewSyscallError("fstat", err)
	}
	return Metadata{
		Device: st.Dev, Inode: st.Ino, Size: st.Size, Mode: st.Mode, UID: st.Uid, GID: st.Gid,
		Modified: st.Mtim.Nano(), Changed: st.Ctim.Nano(),
	}, nil
}

// linkTarget is where a symbolic link leads; empty: it is none.
func linkTarget(fd int, seen Metadata) (string, error) {
	if seen.Mode&unix.S_IFMT != unix.S_IFLNK {
		return "", nil
	}
	target := make([]byte, unix.PathMax)
	n, err := unix.Readlinkat(fd, "", target)
	if err != nil {
		return "", os.NewSyscallError("readlink", err)
	}
	return string(target[:n]), nil
}

// contentSum is the SHA-256 of a file whose metadata was seen. It reads no more than the size
// that was seen; a file that is exchanged meanwhile has another sum or an empty one.
func contentSum(ctx context.Context, root *os.File, name string, seen Metadata) (string, error) {
	// Opening does not wait: a file may have become a pipe.
	fd, err := openBelow(root, name, unix.O_RDONLY|unix.O_NONBLOCK)
	if err != nil {
		return "", err
	}
	f := os.NewFile(uintptr(fd), name)
	defer f.Close()
	now, err := metadata(fd)
	if err != nil {
		return "", err
	}
	if now.Inode != seen.Inode || now.Device != seen.Device {
		return "", nil
	}
	hash := sha256.New()
	if _, err := io.Copy(hash, readable{ctx, io.LimitReader(f, seen.Size+1)}); err != nil {
		return "", err
	}
	return hex.EncodeToString(hash.Sum(nil)), nil
}

// readable is a reader that ends with its context.
type readable struct {
	ctx context.Context //nolint:containedctx // a reader has no other way to know it
	io.Reader
}

func (r readable) Read(p []byte) (int, error) {
	if err := r.ctx.Err(); err != nil {
		return 0, err
	}
	return r.Reader.Read(p)
}
