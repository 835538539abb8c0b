package image_test

import (
	"context"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"nstance.dev/agent/paver/digest"
	"nstance.dev/agent/paver/download"
	"nstance.dev/agent/paver/image"
	"nstance.dev/agent/paver/treetest"
)

// serving answers one path with data.
func (s *server) serving(path string, data []byte) {
	s.answer(func(w http.ResponseWriter, r *http.Request) bool {
		if r.URL.Path == path {
			_, _ = w.Write(data)
			return true
		}
		return false
	})
}

func TestAnArchiveBecomesARoot(t *testing.T) {
	plain := treetest.Archive(t, append(bootable(), treetest.File("a", "1"), treetest.File(".wh.a", "2"))...)
	for how, data := range map[string][]byte{"plain": plain, "gzip": gzipped(t, plain), "zstd": zstandard(t, plain)} {
		t.Run(how, func(t *testing.T) {
			s := newServer(t)
			s.serving("/root.tar", data)
			h := newHost(t, image.Options{Roots: s.roots})
			src := image.Source{Archive: &image.Archive{URL: s.URL + "/root.tar?sig=" + marked, SHA256: digest.Of(data).String()}}
			if got, err := h.ensure(t, src); err != nil || got != ".wh.a=2 a=1" {
				t.Fatalf("got %q, %v", got, err)
			}
			s.Close()
			h.restart(t)
			if _, err := h.ensure(t, src); err != nil {
				t.Errorf("without the server: %v", err)
			}
		})
	}
}

func TestArchivesThatCannotBeUsed(t *testing.T) {
	good := gzipped(t, treetest.Archive(t, bootable()...))
	for what, c := range map[string]struct {
		data   []byte
		digest digest.Digest
		err    error
	}{
		"another digest": {good, digest.Of([]byte("other")), digest.ErrMismatch},
		"cut off":        {good[:len(good)-20], digest.Of(good[:len(good)-20]), nil},
		"no init":        {treetest.Archive(t, treetest.File("etc/os-release", "x")), digest.Of(treetest.Archive(t, treetest.File("etc/os-release", "x"))), image.ErrRefused},
		"empty":          {nil, digest.Of(nil), nil},
		"an escape":      {treetest.Archive(t, treetest.File("../../x", "evil")), digest.Of(treetest.Archive(t, treetest.File("../../x", "evil"))), image.ErrRefused},
	} {
		s := newServer(t)
		s.serving("/root.tar", c.data)
		h := newHost(t, image.Options{Roots: s.roots})
		_, err := h.ensure(t, image.Source{Archive: &image.Archive{URL: s.URL + "/root.tar", SHA256: c.digest.String()}})
		if err == nil || c.err != nil && !errors.Is(err, c.err) {
			t.Errorf("%s: %v", what, err)
		}
	}
	s := newServer(t)
	h := newHost(t, image.Options{Roots: s.roots})
	if _, err := h.ensure(t, image.Source{Archive: &image.Archive{URL: s.URL + "/none?sig=" + marked, SHA256: digest.Of(good).String()}}); !errors.Is(err, download.ErrUnavailable) {
		t.Errorf("one that does not exist: %v", err)
	}
}

func TestDebootstrapIsRunWithFixedArguments(t *testing.T) {
	treetest.NeedRoot(t)
	t.Setenv("SECRET", marked)
	out := filepath.Join(t.TempDir(), "arguments")
	h := newHost(t, image.Options{Debootstrap: script(t, `printf '%s\n' "$@" > `+out+"; env >> "+out)})
	src := &image.Debootstrap{
		Suite: "bookworm", Variant: "buildd", Packages: []string{"systemd", "libc++1"}, Mirror: "http://deb.example.com/debian", Keyring: "/usr/share/keyrings/x.gpg",
	}
	if _, err := h.ensure(t, image.Source{Debootstrap: src}); !errors.Is(err, image.ErrRefused) {
		t.Errorf("a tree without an init: %v", err)
	}
	data, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(string(data), "\n")
	const want = "--arch=amd64 --variant=buildd --force-check-gpg --include=systemd,libc++1 --keyring=/usr/share/keyrings/x.gpg bookworm"
	if got := strings.Join(lines[:6], " "); got != want {
		t.Errorf("the arguments are %s", got)
	}
	if !strings.HasPrefix(lines[6], h.dir) || lines[7] != src.Mirror {
		t.Errorf("the arguments go on with %q", lines[6:8])
	}
	if strings.Contains(string(data), marked) {
		t.Error("the environment of the process is passed on")
	}
}

func TestWhatDebootstrapMakesIsMadeOnce(t *testing.T) {
	treetest.NeedRoot(t)
	count := filepath.Join(t.TempDir(), "count")
	program := script(t, `echo x >> `+count+`
for dir; do case "$dir" in /*) break;; esac; done
mkdir -p "$dir/usr/lib/systemd" "$dir/proc"
mount -t proc proc "$dir/proc"
echo i > "$dir/usr/lib/systemd/systemd"; echo ID=x > "$dir/usr/lib/os-release"; echo 1 > "$dir/a"
`)
	h := newHost(t, image.Options{Debootstrap: program})
	src := image.Source{Debootstrap: &image.Debootstrap{Suite: "bookworm", Packages: []string{"systemd", "libc++1"}}}
	for range 2 {
		// What it has mounted ends with it: the tree could not be measured otherwise.
		if got, err := h.ensure(t, src); err != nil || got != "a=1\n" {
			t.Fatalf("got %q, %v", got, err)
		}
		h.restart(t)
	}
	if data, err := os.ReadFile(count); err != nil || string(data) != "x\n" {
		t.Errorf("it ran %q, %v", data, err)
	}
	src.Debootstrap.Packages = nil
	if _, err := h.ensure(t, src); err != nil {
		t.Error(err)
	}
	if data, err := os.ReadFile(count); err != nil || string(data) != "x\nx\n" {
		t.Errorf("it ran %q, %v", data, err)
	}
}

func TestDebootstrapThatFails(t *testing.T) {
	treetest.NeedRoot(t)
	src := image.Source{Debootstrap: &image.Debootstrap{Suite: "bookworm"}}
	h := newHost(t, image.Options{Debootstrap: script(t, "mkdir -p \"$4/usr\"; echo 'E: no keyring' >&2; exit 3")})
	if _, err := h.ensure(t, src); err == nil || !strings.Contains(err.Error(), "exit status 3: E: no keyring") {
		t.Errorf("got %v", err)
	}
	h = newHost(t, image.Options{Debootstrap: filepath.Join(t.TempDir(), "none")})
	if _, err := h.ensure(t, src); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("got %v", err)
	}
	// A context ends it with everything that it has started.
	alive := filepath.Join(t.TempDir(), "alive")
	h = newHost(t, image.Options{Debootstrap: script(t, "(while :; do date > "+alive+"; done) &\nwhile [ ! -e "+alive+" ]; do :; done\nmkfifo "+alive+".started; echo > "+alive+".go; wait")})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() {
		for {
			if _, err := os.Stat(alive + ".go"); err == nil {
				cancel()
				return
			}
		}
	}()
	_, err := h.Ensure(ctx, src, nil)
	h.check(t, err)
	if !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	if err := os.Remove(alive); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(alive); err == nil {
		t.Error("what debootstrap has started goes on")
	}
}
