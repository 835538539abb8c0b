package files_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"nstance.dev/agent/files"
)

var modified = time.Date(2026, 1, 2, 3, 4, 5, 600, time.UTC)

// machine is a receive directory and the hash that commits store.
type machine struct {
	t       testing.TB
	dir     string
	hash    string
	hashErr error
	ahead   time.Duration // of the machine's clock
	store   *files.Store
}

func newMachine(t testing.TB) *machine {
	m := &machine{t: t, dir: filepath.Join(t.TempDir(), "recv"), hash: "old"}
	m.restart()
	return m
}

func (m *machine) options() files.Options {
	return files.Options{Dir: m.dir, Mode: 0o640, DirMode: 0o750, Now: func() time.Time { return time.Now().Add(m.ahead) }, StoreHash: func(hash string) error {
		if m.hashErr != nil {
			return m.hashErr
		}
		m.hash = hash
		return nil
	}}
}

func (m *machine) restart() {
	m.t.Helper()
	var err error
	if m.store, err = files.Open(m.options()); err != nil {
		m.t.Fatal(err)
	}
}

func (m *machine) stage(name, content string) {
	m.t.Helper()
	if err := m.store.Stage(name, []byte(content), modified); err != nil {
		m.t.Fatal(err)
	}
}

// in returns name=content of every file in place.
func (m *machine) in() string {
	m.t.Helper()
	entries, err := os.ReadDir(m.dir)
	if err != nil {
		m.t.Fatal(err)
	}
	var all []string
	for _, e := range entries {
		if e.IsDir() || e.Name() == ".manifest" {
			continue
		}
		data, err := os.ReadFile(filepath.Join(m.dir, e.Name()))
		if err != nil {
			m.t.Fatal(err)
		}
		all = append(all, e.Name()+"="+string(data))
	}
	return strings.Join(all, " ")
}

func (m *machine) expect(in, hash string) {
	m.t.Helper()
	if got := m.in(); got != in || m.hash != hash {
		m.t.Errorf("in place: %q with hash %q, want %q with %q", got, m.hash, in, hash)
	}
}

func (m *machine) statuses() map[string]files.Status {
	m.t.Helper()
	return m.store.Statuses()
}

func TestCommitPutsEverythingInPlace(t *testing.T) {
	m := newMachine(t)
	m.stage("a.txt", "1")
	m.stage("b.txt", "1")
	m.stage("a.txt", "2") // pushed again before the commit
	m.expect("", "old")
	if err := m.store.Commit("new"); err != nil {
		t.Fatal(err)
	}
	m.expect("a.txt=2 b.txt=1", "new")
	info, err := os.Stat(filepath.Join(m.dir, "a.txt"))
	if err != nil || info.Mode().Perm() != 0o640 || !info.ModTime().Equal(modified) {
		t.Errorf("mode %v, time %v, error %v", info.Mode(), info.ModTime(), err)
	}
	if err := m.store.Commit("newer"); err != nil {
		t.Fatal(err)
	}
	m.expect("a.txt=2 b.txt=1", "newer")
}

func TestARefusedFileKeepsItsBatchOut(t *testing.T) {
	m := newMachine(t)
	m.stage("a.txt", "1")
	if err := m.store.Stage("b.json", []byte("{"), modified); err == nil {
		t.Fatal("invalid JSON was accepted")
	}
	if err := m.store.Commit("new"); err == nil || !strings.Contains(err.Error(), "b.json") {
		t.Errorf("Commit() = %v, want an error that names b.json", err)
	}
	m.expect("", "old")
	if s := m.statuses(); s["a.txt"] != (files.Status{}) || !strings.Contains(s["b.json"].Error, "JSON") {
		t.Errorf("statuses %v", s)
	}

	// The next batch is a new chance, also for the file that was refused.
	m.stage("a.txt", "1")
	m.stage("b.json", "{}")
	if err := m.store.Commit("new"); err != nil {
		t.Fatal(err)
	}
	m.expect("a.txt=1 b.json={}", "new")
	if s := m.statuses(); s["b.json"].Error != "" || !s["b.json"].ModTime.Equal(modified) {
		t.Errorf("statuses %v", s)
	}
}

func TestARefusedFileMayBeCorrectedWithinTheBatch(t *testing.T) {
	m := newMachine(t)
	if err := m.store.Stage("b.json", []byte("{"), modified); err == nil {
		t.Fatal("invalid JSON was accepted")
	}
	m.stage("b.json", "{}")
	if err := m.store.Commit("new"); err != nil {
		t.Fatal(err)
	}
	m.expect("b.json={}", "new")
}

func TestCommitChecksEverythingBeforeTheFirstRename(t *testing.T) {
	staged := func(m *machine, name string) string { return filepath.Join(m.dir, ".staging", name) }
	for _, tt := range []struct {
		name  string
		spoil func(*machine) error
		hash  string
	}{
		{"a staged file is gone", func(m *machine) error { return os.Remove(staged(m, "b.txt")) }, "new"},
		{"a staged file was changed", func(m *machine) error { return os.WriteFile(staged(m, "b.txt"), []byte("x"), 0o600) }, "new"},
		{"a staged file became a link", func(m *machine) error {
			return errors.Join(os.Remove(staged(m, "b.txt")), os.Symlink("/etc/hostname", staged(m, "b.txt")))
		}, "new"},
		{"a directory stands in the way", func(m *machine) error { return os.Mkdir(filepath.Join(m.dir, "b.txt"), 0o700) }, "new"},
		{"no hash", func(*machine) error { return nil }, ""},
		{"a hash with a line break", func(*machine) error { return nil }, "a\nb"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			m := newMachine(t)
			m.stage("a.txt", "1")
			m.stage("b.txt", "1")
			if err := tt.spoil(m); err != nil {
				t.Fatal(err)
			}
			if err := m.store.Commit(tt.hash); err == nil {
				t.Error("the commit went through")
			}
			m.expect("", "old")
			m.restart()
			m.expect("", "old")
		})
	}
}

func TestDiscard(t *testing.T) {
	m := newMachine(t)
	m.stage("a.txt", "1")
	if err := m.store.Discard(); err != nil {
		t.Fatal(err)
	}
	if err := m.store.Commit("new"); err != nil {
		t.Fatal(err)
	}
	m.expect("", "new")
}

func TestStageBounds(t *testing.T) {
	m := newMachine(t)
	if err := m.store.Stage("big.bin", make([]byte, files.MaxSize+1), modified); err == nil {
		t.Error("a file that is too big was accepted")
	}
	for _, name := range []string{"", ".", "..", "../x", "a/b", ".hidden", "/etc/passwd", "a\x00", strings.Repeat("a", 129)} {
		if err := m.store.Stage(name, nil, modified); !errors.Is(err, files.ErrName) {
			t.Errorf("Stage(%q) = %v, want %v", name, err, files.ErrName)
		}
	}
	if s := m.statuses(); len(s) != 1 {
		t.Errorf("statuses %v, want that of the valid name only", s)
	}
	if err := m.store.Commit("new"); err == nil {
		t.Error("a batch with refused names was applied")
	}
}
