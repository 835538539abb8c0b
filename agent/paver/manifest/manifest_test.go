package manifest_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"golang.org/x/sys/unix"

	"nstance.dev/agent/paver/manifest"
	"nstance.dev/agent/paver/render"
)

func sum(content string) string {
	s := sha256.Sum256([]byte(content))
	return hex.EncodeToString(s[:])
}

// files are some of every kind.
func files() []render.File {
	return []render.File{
		{Place: render.Slot, Path: "/etc/hostname", Mode: 0o644, Content: "n1\n"},
		{Place: render.Slot, Path: "/etc/machine-id", Mode: 0o444, Runtime: true},
		{Place: render.Slot, Path: "/etc/secret", Mode: 0o600, Content: "marked", Secret: true},
		{Place: render.Slot, Path: "/etc/systemd/system/x.service", Link: "/dev/null"},
		{Place: render.Slot, Path: "/usr/local/bin/x", Mode: 0o755, Content: "#!/bin/sh\n"},
		{Place: render.OnHost, Path: "/etc/sysctl.d/90-nstance.conf", Mode: 0o644, Content: "a = 1\n"},
	}
}

// world is a slot and a host with files in them.
type world struct {
	*testing.T
	roots    manifest.Roots
	manifest manifest.Manifest
}

func newWorld(t *testing.T) *world {
	w := &world{t, manifest.Roots{render.Slot: t.TempDir(), render.OnHost: t.TempDir()}, manifest.Of(files())}
	for _, f := range files() {
		w.write(f)
	}
	return w
}

func (w *world) at(place render.Place, path string) string {
	return filepath.Join(w.roots[place], path)
}

func (w *world) must(errs ...error) {
	w.Helper()
	if err := errors.Join(errs...); err != nil {
		w.Fatal(err)
	}
}

func (w *world) write(f render.File) {
	name := w.at(f.Place, f.Path)
	w.must(os.MkdirAll(filepath.Dir(name), 0o700))
	if f.Link != "" {
		w.must(os.Symlink(f.Link, name))
		return
	}
	w.must(os.WriteFile(name, []byte(f.Content), 0o600), os.Chmod(name, f.Mode))
}

// compare compares, and returns the differences and how many files were read.
func (w *world) compare() (drift []string, read int) {
	w.Helper()
	r, err := w.manifest.Compare(w.Context(), w.roots)
	w.must(err)
	w.manifest = r.Manifest
	for _, d := range r.Drift {
		drift = append(drift, d.GetPath()+" "+strings.TrimPrefix(d.GetKind().String(), "MACHINE_DRIFT_KIND_"))
	}
	return drift, r.Read
}

func (w *world) want(want ...string) {
	w.Helper()
	got, _ := w.compare()
	if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
		w.Errorf("differences:\n%s", diff)
	}
}

// TestM98_DriftIsFoundAndNotRepaired: a file that was changed is told, one that was removed too, and
// one that was changed back is none of both.
func TestM98_DriftIsFoundAndNotRepaired(t *testing.T) {
	hostname := func(w *world) string { return w.at(render.Slot, "/etc/hostname") }
	for _, tt := range []struct {
		name   string
		change func(w *world)
		want   []string
	}{
		{"nothing", func(*world) {}, nil},
		{"changed", func(w *world) { w.must(os.WriteFile(hostname(w), []byte("n2\n"), 0o600)) }, []string{"/etc/hostname CHANGED"}},
		{"grown", func(w *world) { w.must(os.WriteFile(hostname(w), []byte("n1\n\n"), 0o600)) }, []string{"/etc/hostname CHANGED"}},
		{"gone", func(w *world) { w.must(os.Remove(hostname(w))) }, []string{"/etc/hostname MISSING"}},
		{"its directory gone", func(w *world) { w.must(os.RemoveAll(w.at(render.Slot, "/usr/local"))) }, []string{"/usr/local/bin/x MISSING"}},
		{"its directory a file", func(w *world) {
			w.must(os.RemoveAll(w.at(render.Slot, "/usr/local")), os.WriteFile(w.at(render.Slot, "/usr/local"), nil, 0o600))
		}, []string{"/usr/local/bin/x MISSING"}},
		{"other permissions", func(w *world) { w.must(os.Chmod(hostname(w), 0o600)) }, []string{"/etc/hostname CHANGED"}},
		{"a set-id bit", func(w *world) { w.must(os.Chmod(w.at(render.Slot, "/usr/local/bin/x"), 0o755|os.ModeSetuid)) }, []string{"/usr/local/bin/x CHANGED"}},
		{"on the host", func(w *world) {
			w.must(os.WriteFile(w.at(render.OnHost, "/etc/sysctl.d/90-nstance.conf"), []byte("a = 2\n"), 0o600))
		}, []string{"/etc/sysctl.d/90-nstance.conf CHANGED"}},
		{"a link elsewhere", func(w *world) {
			name := w.at(render.Slot, "/etc/systemd/system/x.service")
			w.must(os.Remove(name), os.Symlink("/etc/x.service", name))
		}, []string{"/etc/systemd/system/x.service CHANGED"}},
		{"a link that is a file", func(w *world) {
			name := w.at(render.Slot, "/etc/systemd/system/x.service")
			w.must(os.Remove(name), os.WriteFile(name, []byte("/dev/null"), 0o600))
		}, []string{"/etc/systemd/system/x.service CHANGED"}},
		{"a file that is a link to the same", func(w *world) {
			w.must(os.Rename(hostname(w), hostname(w)+"2"), os.Symlink("hostname2", hostname(w)))
		}, []string{"/etc/hostname CHANGED"}},
		{"a file that is a directory", func(w *world) { w.must(os.Remove(hostname(w)), os.Mkdir(hostname(w), 0o700)) }, []string{"/etc/hostname CHANGED"}},
		{"a file that is a pipe", func(w *world) { w.must(os.Remove(hostname(w)), unix.Mkfifo(hostname(w), 0o644)) }, []string{"/etc/hostname CHANGED"}},
		{"a directory that leads out", func(w *world) {
			outside := w.TempDir()
			w.must(os.WriteFile(filepath.Join(outside, "x"), []byte("#!/bin/sh\n"), 0o600), os.Chmod(filepath.Join(outside, "x"), 0o755),
				os.RemoveAll(w.at(render.Slot, "/usr/local/bin")), os.Symlink(outside, w.at(render.Slot, "/usr/local/bin")))
		}, []string{"/usr/local/bin/x MISSING"}},
		{"written again by somebody", func(w *world) {
			w.must(os.Remove(hostname(w)), os.WriteFile(hostname(w), []byte("n1\n"), 0o600), os.Chmod(hostname(w), 0o644))
		}, nil},
		{"what the machine writes itself", func(w *world) {
			w.must(os.Remove(w.at(render.Slot, "/etc/machine-id")), os.Remove(w.at(render.Slot, "/etc/secret")))
		}, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(t)
			w.want()
			tt.change(w)
			w.want(tt.want...)
			w.want(tt.want...) // it stays, and is not taken for what should be

			// A manifest that never was looked at finds the same.
			fresh := &world{t, w.roots, manifest.Of(files())}
			fresh.want(tt.want...)
		})
	}
}

// TestM98_ChangedBack: what is as it was written is no drift any more, though its metadata differs.
func TestM98_ChangedBack(t *testing.T) {
	w := newWorld(t)
	name := w.at(render.Slot, "/etc/hostname")
	w.want()
	w.must(os.WriteFile(name, []byte("nX\n"), 0o600))
	w.want("/etc/hostname CHANGED")
	w.must(os.WriteFile(name, []byte("n1\n"), 0o600))
	w.want()
	if _, read := w.compare(); read != 0 {
		t.Errorf("%d files were read again", read)
	}
}

// TestM98_ContentIsReadOnlyAfterAChange: the first look reads everything, later ones what has changed,
// also where a file's time was set back.
func TestM98_ContentIsReadOnlyAfterAChange(t *testing.T) {
	w := newWorld(t)
	if _, read := w.compare(); read != 3 {
		t.Errorf("the first look read %d files", read)
	}
	if _, read := w.compare(); read != 0 {
		t.Errorf("a look after nothing read %d files", read)
	}
	name := w.at(render.Slot, "/etc/hostname")
	info, err := os.Stat(name)
	w.must(err)
	w.must(os.WriteFile(name, []byte("n2\n"), 0o600), os.Chtimes(name, info.ModTime(), info.ModTime()))
	if drift, read := w.compare(); len(drift) != 1 || read != 1 {
		t.Errorf("a change with the old time: drift %v, %d files read", drift, read)
	}
}

// TestM98_Artifacts are in the manifest as files are.
func TestM98_Artifacts(t *testing.T) {
	w := newWorld(t)
	w.write(render.File{Place: render.Slot, Path: "/usr/local/bin/kubelet", Mode: 0o755, Content: "elf"})
	w.manifest = w.manifest.With(render.Slot, "/usr/local/bin/kubelet", 0o755, sum("elf"))
	w.want()
	w.manifest = w.manifest.With(render.Slot, "/usr/local/bin/kubelet", 0o755, sum("another"))
	w.want("/usr/local/bin/kubelet CHANGED")
}

// TestM98_ManyDifferences: 32 are told, in order, and how many there are.
func TestM98_ManyDifferences(t *testing.T) {
	var all []render.File
	for i := range 50 {
		all = append(all, render.File{Place: render.Slot, Path: fmt.Sprintf("/etc/%02d", i), Mode: 0o644})
	}
	r, err := manifest.Of(all).Compare(t.Context(), manifest.Roots{render.Slot: t.TempDir()})
	if err != nil || len(r.Drift) != manifest.MaxDrift || r.Total != 50 || r.Drift[0].GetPath() != "/etc/00" || r.Drift[31].GetPath() != "/etc/31" {
		t.Errorf("%d of %d told: %v, %v", len(r.Drift), r.Total, r.Drift, err)
	}
}

// TestM98_WhatCannotBeSeenIsNoDrift: a root that is not there, or a look that is cut short, says
// nothing about files.
func TestM98_WhatCannotBeSeenIsNoDrift(t *testing.T) {
	w := newWorld(t)
	w.must(os.RemoveAll(w.roots[render.Slot]))
	r, err := w.manifest.Compare(t.Context(), w.roots)
	if err == nil || len(r.Drift) > 0 {
		t.Errorf("drift %v, error %v", r.Drift, err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if r, err := newWorld(t).manifest.Compare(ended, w.roots); !errors.Is(err, context.Canceled) || len(r.Drift) > 0 {
		t.Errorf("drift %v, error %v", r.Drift, err)
	}
}

// TestM98_OwnerIsWatched needs the right to give files away.
func TestM98_OwnerIsWatched(t *testing.T) {
	w := newWorld(t)
	w.want()
	name := w.at(render.Slot, "/etc/hostname")
	if err := os.Chown(name, 1, 1); err != nil {
		if os.Geteuid() != 0 {
			w.want() // it was not changed
			return
		}
		t.Fatal(err)
	}
	w.want("/etc/hostname CHANGED")
}

// TestManifest_Encode: a manifest is kept without content, and read as it was.
func TestManifest_Encode(t *testing.T) {
	w := newWorld(t)
	w.want()
	text, err := w.manifest.Encode()
	w.must(err)
	if strings.Contains(string(text), "marked") || strings.Contains(string(text), "n1") || strings.Contains(string(text), sum("marked")) {
		t.Errorf("it has content of files:\n%s", text)
	}
	read, err := manifest.Decode(text)
	w.must(err)
	if diff := cmp.Diff(w.manifest.Entries(), read.Entries()); diff != "" {
		t.Errorf("read as another one:\n%s", diff)
	}
	w.manifest = read
	if _, n := w.compare(); n != 0 {
		t.Errorf("%d files were read after a restart", n)
	}
}

func TestDecode_Refuses(t *testing.T) {
	for _, text := range []string{
		"", "{", `{"v":2,"entries":[]}`, `{"v":1,"entries":[],"more":1}`,
		`{"v":1,"entries":[{"place":"moon","path":"/x","link":"/y"}]}`,
		`{"v":1,"entries":[{"place":"slot","path":"x","link":"/y"}]}`,
		`{"v":1,"entries":[{"place":"slot","path":"/../x","link":"/y"}]}`,
		`{"v":1,"entries":[{"place":"slot","path":"/x"}]}`,
		`{"v":1,"entries":[{"place":"slot","path":"/x","sha256":"00"}]}`,
		`{"v":1,"entries":[{"place":"slot","path":"/x","link":"/y","mode":4096}]}`,
		`{"v":1,"entries":[` + strings.TrimSuffix(strings.Repeat(`{"place":"slot","path":"/x","link":"/y"},`, 4097), ",") + `]}`,
		strings.Repeat(" ", manifest.MaxSize+1),
	} {
		if _, err := manifest.Decode([]byte(text)); err == nil {
			t.Errorf("%.80q is a manifest", text)
		}
	}
}

// FuzzDecode: what is read can be written and compared.
func FuzzDecode(f *testing.F) {
	text, err := manifest.Of(files()).Encode()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(text)
	f.Add([]byte(`{"v":1,"entries":[{"place":"slot","path":"/x","link":"/y","seen":{"size":-1}}]}`))
	roots := manifest.Roots{render.Slot: f.TempDir(), render.OnHost: f.TempDir()}
	f.Fuzz(func(t *testing.T, text []byte) {
		m, err := manifest.Decode(text)
		if err != nil {
			return
		}
		again, err := m.Encode()
		if err != nil {
			t.Fatal(err)
		}
		read, err := manifest.Decode(again)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(m.Entries(), read.Entries()); diff != "" {
			t.Errorf("read as another one:\n%s", diff)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if r, err := m.Compare(ctx, roots); err == nil && r.Total != len(m.Entries()) {
			t.Errorf("%d of %d files are missing in empty directories", r.Total, len(m.Entries()))
		}
	})
}
