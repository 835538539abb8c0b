package files_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"

	"nstance.dev/agent/durable"
	"nstance.dev/agent/files"
)

// victim is a directory of somebody else, with what is in it.
func victim(t *testing.T) (dir string, check func(when string)) {
	t.Helper()
	dir = t.TempDir()
	if err := errors.Join(
		os.WriteFile(filepath.Join(dir, "precious"), []byte("precious"), 0o600),
		os.MkdirAll(filepath.Join(dir, "below", "it"), 0o700),
	); err != nil {
		t.Fatal(err)
	}
	return dir, func(when string) {
		t.Helper()
		entries, err := os.ReadDir(dir)
		if err != nil || len(entries) != 2 {
			t.Errorf("%s: the other directory has %v, %v", when, entries, err)
		}
	}
}

func options(dir string) files.Options {
	return files.Options{Dir: dir, Mode: 0o640, DirMode: 0o750, StoreHash: func(string) error { return nil }}
}

// TestF53_NoLinkLeadsOutOfTheReceiveDirectory: whoever may write to it puts a link in the place of
// the agent's own directory in it, before the agent starts or while it runs.
func TestF53_NoLinkLeadsOutOfTheReceiveDirectory(t *testing.T) {
	t.Run("before the start", func(t *testing.T) {
		dir := filepath.Join(t.TempDir(), "recv")
		other, check := victim(t)
		if err := errors.Join(os.Mkdir(dir, 0o750), os.Symlink(other, filepath.Join(dir, ".staging"))); err != nil {
			t.Fatal(err)
		}
		if _, err := files.Open(options(dir)); err == nil {
			t.Error("the agent takes a link for its directory")
		}
		check("after the start")
	})
	for name, target := range map[string]func(dir, other string) string{
		"to another directory":      func(_, other string) string { return other },
		"to the directory it is in": func(string, string) string { return "." },
	} {
		t.Run("while it runs, "+name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "recv")
			other, check := victim(t)
			s, err := files.Open(options(dir))
			if err != nil {
				t.Fatal(err)
			}
			if err := errors.Join(s.Stage("a.txt", []byte("one"), time.Time{}), s.Commit("h1")); err != nil {
				t.Fatal(err)
			}
			staging := filepath.Join(dir, ".staging")
			if err := errors.Join(os.RemoveAll(staging), os.Symlink(target(dir, other), staging)); err != nil {
				t.Fatal(err)
			}
			if err := s.Discard(); err == nil {
				t.Error("what a link leads to was emptied")
			}
			check("after a discard")
			stageErr := s.Stage("b.txt", []byte("two"), time.Time{})
			commitErr := s.Commit("h2")
			check("after a delivery")
			if target(dir, other) == other && (stageErr == nil || commitErr == nil) {
				t.Errorf("a delivery through the link: %v, %v", stageErr, commitErr)
			}
			if got, err := os.ReadFile(filepath.Join(dir, "a.txt")); err != nil || string(got) != "one" {
				t.Errorf("a delivered file: %q, %v", got, err)
			}
		})
	}
	t.Run("as the manifest", func(t *testing.T) {
		dir := filepath.Join(t.TempDir(), "recv")
		forged := filepath.Join(t.TempDir(), "manifest")
		text := `{"a.txt":{"size":0,"sha256":"e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855","modified":"2026-01-01T00:00:00Z"}}`
		if err := errors.Join(os.Mkdir(dir, 0o750), os.WriteFile(forged, []byte(text), 0o600), os.Symlink(forged, filepath.Join(dir, ".manifest"))); err != nil {
			t.Fatal(err)
		}
		s, err := files.Open(options(dir))
		if err != nil {
			t.Fatal(err)
		}
		if got := s.Statuses(); len(got) != 0 {
			t.Errorf("what a link says was delivered counts: %v", got)
		}
		if err := errors.Join(s.Stage("a.txt", []byte("one"), time.Time{}), s.Commit("h1")); err != nil {
			t.Fatal(err)
		}
		if got, err := os.ReadFile(forged); err != nil || string(got) != text {
			t.Errorf("the file that the link leads to: %q, %v", got, err)
		}
	})
}

// TestF53_DirectoriesThatOthersMayWriteToAreRefused, unless they are configured so.
func TestF53_DirectoriesThatOthersMayWriteToAreRefused(t *testing.T) {
	for _, tt := range []struct {
		has, configured fs.FileMode
		ok              bool
	}{
		{0o700, 0o750, true}, {0o755, 0o750, true}, {0o770, 0o770, true}, {0o777, 0o777, true},
		{0o770, 0o750, false}, {0o777, 0o770, false}, {0o702, 0o750, false}, {0o777, 0o700, false},
	} {
		dir := t.TempDir()
		if err := os.Chmod(dir, tt.has); err != nil {
			t.Fatal(err)
		}
		o := options(dir)
		o.DirMode = tt.configured
		if _, err := files.Open(o); tt.ok && err != nil || !tt.ok && !errors.Is(err, durable.ErrTooOpen) {
			t.Errorf("mode %#o where %#o is configured: %v", tt.has, tt.configured, err)
		}
	}
	dir := filepath.Join(t.TempDir(), "recv")
	staging := filepath.Join(dir, ".staging")
	if err := errors.Join(os.MkdirAll(staging, 0o700), os.Chmod(staging, 0o777)); err != nil {
		t.Fatal(err)
	}
	if _, err := files.Open(options(dir)); err == nil {
		t.Error("others may write to where files are staged, and that is no error")
	}
}

// failing is a disk that does not rename a file, once.
type failing struct {
	files.Disk
	name string
}

func (f *failing) Rename(from, to string) error {
	if filepath.Base(to) == f.name {
		f.name = ""
		return errors.New("the disk is full")
	}
	return f.Disk.Rename(from, to)
}

// TestACommitFinishesTheOneBefore: one that an error cut off after its note was written
// stands; a commit of a hash alone that follows finishes it and is not taken for it.
func TestACommitFinishesTheOneBefore(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "recv")
	hash := ""
	o := options(dir)
	o.StoreHash = func(h string) error { hash = h; return nil }
	s, err := files.OpenOn(o, &failing{files.OperatingSystem(), "b.txt"})
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"a.txt", "b.txt"} {
		if err := s.Stage(name, []byte(name), time.Time{}); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Commit("h1"); err == nil {
		t.Fatal("a commit of which a rename failed is no error; the test shows nothing")
	}
	if hash != "" {
		t.Errorf("hash %q is stored of a commit that is not complete", hash)
	}
	if err := s.Commit("h2"); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"a.txt", "b.txt"} {
		if got, err := os.ReadFile(filepath.Join(dir, name)); err != nil || string(got) != name {
			t.Errorf("%s: %q, %v: hash %s stands and the files of the batch before do not", name, got, err, hash)
		}
	}
	if hash != "h2" {
		t.Errorf("hash %q", hash)
	}
}
