// Package treetest makes archives and describes directory trees, for tests of what unpacks
// and copies root file systems.
package treetest

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// Time is the modification time of entries that [Archive] is told none for.
var Time = time.Date(2026, time.March, 4, 5, 6, 7, 0, time.UTC)

// Entry is an entry of an archive and its content. Where it names no owner it gets the
// user's own, so that unpacking needs no rights; where it has no permissions it gets 0644,
// directories 0755.
type Entry struct {
	tar.Header
	Content string
}

// File is a regular file.
func File(name, content string) Entry {
	return Entry{Header: tar.Header{Name: name, Typeflag: tar.TypeReg}, Content: content}
}

// Dir is a directory.
func Dir(name string) Entry { return Entry{Header: tar.Header{Name: name, Typeflag: tar.TypeDir}} }

// Symlink is a symbolic link.
func Symlink(name, target string) Entry {
	return Entry{Header: tar.Header{Name: name, Linkname: target, Typeflag: tar.TypeSymlink}}
}

// Link is a hard link.
func Link(name, target string) Entry {
	return Entry{Header: tar.Header{Name: name, Linkname: target, Typeflag: tar.TypeLink}}
}

// Device is a character device.
func Device(name string, major, minor int64) Entry {
	return Entry{Header: tar.Header{Name: name, Typeflag: tar.TypeChar, Devmajor: major, Devminor: minor}}
}

// Archive is a tar archive of the entries.
func Archive(t testing.TB, entries ...Entry) []byte {
	t.Helper()
	var buffer bytes.Buffer
	w := tar.NewWriter(&buffer)
	for _, e := range entries {
		h := e.Header
		if h.Uid == 0 && h.Gid == 0 {
			h.Uid, h.Gid = os.Getuid(), os.Getgid()
		}
		if h.ModTime.IsZero() {
			h.ModTime = Time
		}
		if h.Mode == 0 {
			h.Mode = 0o644
			if h.Typeflag == tar.TypeDir {
				h.Mode = 0o755
			}
		}
		if h.Typeflag == tar.TypeReg {
			h.Size = int64(len(e.Content))
		}
		h.Format = tar.FormatPAX
		if err := w.WriteHeader(&h); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write([]byte(e.Content)); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return buffer.Bytes()
}

// Describe is the tree at dir, a line for each entry: path, mode, owner, modification time,
// and the content's hash, the link's target or the device. Names with several paths are told
// by the first of them.
func Describe(t testing.TB, dir string) string {
	t.Helper()
	var lines []string
	first := map[uint64]string{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		name, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		st := info.Sys().(*syscall.Stat_t)
		line := fmt.Sprintf("%q %v %d:%d %s", name, info.Mode(), st.Uid, st.Gid, info.ModTime().UTC().Format(time.RFC3339Nano))
		what, err := content(path, info, st)
		if err != nil {
			return err
		}
		if st.Nlink > 1 && !info.IsDir() {
			if f, ok := first[st.Ino]; ok {
				what += " is " + f
			} else {
				first[st.Ino] = name
			}
		}
		lines = append(lines, line+what)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return strings.Join(lines, "\n")
}

func content(path string, info fs.FileInfo, st *syscall.Stat_t) (string, error) {
	switch info.Mode().Type() {
	case 0:
		data, err := os.ReadFile(path)
		return fmt.Sprintf(" %d bytes %x", len(data), sha256.Sum256(data)), err
	case fs.ModeSymlink:
		target, err := os.Readlink(path)
		return fmt.Sprintf(" -> %q", target), err
	case fs.ModeDevice, fs.ModeDevice | fs.ModeCharDevice:
		return fmt.Sprintf(" device %d", st.Rdev), nil
	}
	return "", nil
}

// NeedRoot fails a test of owners, device nodes or namespaces for who may not make them.
func NeedRoot(t testing.TB) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Fatal("this test sets owners, makes device nodes or namespaces: run it as root, as CI does")
	}
}
