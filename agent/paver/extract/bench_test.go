package extract_test

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"nstance.dev/agent/paver/extract"
	"nstance.dev/agent/paver/tree"
	"nstance.dev/agent/paver/treetest"
)

// BenchmarkUnpack is a tree of the shape of a small root file system, 6,000 files and 90 MB,
// unpacked by this package and by tar.
func BenchmarkUnpack(b *testing.B) {
	var entries []treetest.Entry
	content := strings.Repeat("0123456789abcdef", 1<<16)
	for d := range 300 {
		entries = append(entries, treetest.Dir(fmt.Sprintf("usr/share/d%d", d)))
		for f := range 20 {
			entries = append(entries, treetest.File(fmt.Sprintf("usr/share/d%d/f%d", d, f), content[:1+(d*7919+f*104729)%30_000]))
		}
	}
	archive := treetest.Archive(b, entries...)
	run := func(name string, unpack func(b *testing.B, dir string)) {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(archive)))
			top := b.TempDir()
			for i := range b.N {
				dir := filepath.Join(top, fmt.Sprint(i))
				if err := os.Mkdir(dir, 0o755); err != nil {
					b.Fatal(err)
				}
				unpack(b, dir)
				b.StopTimer()
				if err := tree.Remove(dir); err != nil {
					b.Fatal(err)
				}
				b.StartTimer()
			}
		})
	}
	run("layer", func(b *testing.B, dir string) {
		t, err := extract.Open(dir, extract.Limits{})
		if err != nil {
			b.Fatal(err)
		}
		defer t.Close()
		if err := t.Layer(b.Context(), bytes.NewReader(archive)); err != nil {
			b.Fatal(err)
		}
	})
	run("tar", func(b *testing.B, dir string) {
		cmd := exec.CommandContext(b.Context(), "tar", "-x", "--numeric-owner", "--same-permissions", "-C", dir)
		cmd.Stdin = bytes.NewReader(archive)
		if out, err := cmd.CombinedOutput(); err != nil {
			b.Fatalf("%v: %s", err, out)
		}
	})
}
