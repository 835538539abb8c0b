package files_test

import (
	"crypto/sha256"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"nstance.dev/agent/files"
)

// delivered is a machine with two files in place.
func delivered(t *testing.T) *machine {
	t.Helper()
	m := newMachine(t)
	m.stage("a.txt", "one")
	m.stage("b.txt", "two")
	if err := m.store.Commit("new"); err != nil {
		t.Fatal(err)
	}
	return m
}

func inPlace(content string) files.Status {
	return files.Status{ModTime: modified, SHA256: sha256.Sum256([]byte(content))}
}

func TestStatusesSayWhatBecameOfDeliveredFiles(t *testing.T) {
	damaged := files.Status{Error: "the file was changed on this machine after it was delivered"}
	path := func(m *machine) string { return filepath.Join(m.dir, "a.txt") }
	for _, tt := range []struct {
		name string
		do   func(*machine) error
		want files.Status // of a.txt
	}{
		{"nothing", func(*machine) error { return nil }, inPlace("one")},
		{"removed", func(m *machine) error { return os.Remove(path(m)) }, files.Status{}},
		{"truncated", func(m *machine) error { return os.Truncate(path(m), 0) }, damaged},
		{"other content of the same length and time", func(m *machine) error {
			return errors.Join(os.WriteFile(path(m), []byte("0ne"), 0o640), os.Chtimes(path(m), modified, modified))
		}, damaged},
		{"replaced by a link", func(m *machine) error {
			return errors.Join(os.Remove(path(m)), os.Symlink("b.txt", path(m)))
		}, damaged},
		{"replaced by a directory", func(m *machine) error {
			return errors.Join(os.Remove(path(m)), os.Mkdir(path(m), 0o700))
		}, damaged},
		{"touched", func(m *machine) error { return os.Chtimes(path(m), time.Now(), time.Now()) }, inPlace("one")},
		{"permissions", func(m *machine) error { return os.Chmod(path(m), 0o600) }, inPlace("one")},
	} {
		for _, restarted := range []bool{false, true} {
			t.Run(tt.name, func(t *testing.T) {
				m := delivered(t)
				m.ahead = time.Hour // what was written is long settled
				if diff := cmp.Diff(map[string]files.Status{"a.txt": inPlace("one"), "b.txt": inPlace("two")}, m.statuses()); diff != "" {
					t.Fatal(diff)
				}
				if err := tt.do(m); err != nil {
					t.Fatal(err)
				}
				if restarted {
					m.restart()
				}
				if diff := cmp.Diff(map[string]files.Status{"a.txt": tt.want, "b.txt": inPlace("two")}, m.statuses()); diff != "" {
					t.Error(diff)
				}
			})
		}
	}
}

// A file system may give two writes of one tick the same times. Whatever was read within
// that tick is read again.
func TestAChangeInTheSameTickIsNoticed(t *testing.T) {
	m := delivered(t)
	path := filepath.Join(m.dir, "a.txt")
	if s := m.statuses(); s["a.txt"].Error != "" {
		t.Fatal(s)
	}
	files.CoarseTimes(t, m.store)
	if s := m.statuses(); s["a.txt"].Error != "" { // read, with times that tell nothing
		t.Fatal(s)
	}
	if err := os.WriteFile(path, []byte("0ne"), 0o640); err != nil {
		t.Fatal(err)
	}
	if s := m.statuses(); !strings.Contains(s["a.txt"].Error, "changed") {
		t.Errorf("status %+v", s["a.txt"])
	}
}

// Reading everything at every report would cost more than all the rest of it.
func TestFilesThatLookTheSameAreNotReadAgain(t *testing.T) {
	m := delivered(t)
	m.ahead = time.Hour
	m.statuses()
	reads := files.CountReads(m.store)
	for range 10 {
		m.statuses()
	}
	if n := reads(); n != 0 {
		t.Errorf("%d reads of files that nobody has touched", n)
	}
	m.ahead += 2 * time.Hour // after an hour the times are not believed any more
	m.statuses()
	if n := reads(); n != 2 {
		t.Errorf("%d reads after an hour, want one of each file", n)
	}
}

func TestADamagedFileIsReplacedByTheNextDelivery(t *testing.T) {
	m := delivered(t)
	if err := os.WriteFile(filepath.Join(m.dir, "a.txt"), []byte("x"), 0o640); err != nil {
		t.Fatal(err)
	}
	m.stage("a.txt", "one")
	if err := m.store.Commit("new"); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(inPlace("one"), m.statuses()["a.txt"]); diff != "" {
		t.Error(diff)
	}
}

func TestWithoutAManifestNothingCountsAsDelivered(t *testing.T) {
	for name, content := range map[string]string{
		"lost": "", "damaged": `{"a.txt":`, "another form": `[]`, "names that are paths": `{"../a":{"size":1}}`,
	} {
		t.Run(name, func(t *testing.T) {
			m := delivered(t)
			path := filepath.Join(m.dir, ".manifest")
			err := os.Remove(path)
			if content != "" {
				err = os.WriteFile(path, []byte(content), 0o600)
			}
			if err != nil {
				t.Fatal(err)
			}
			m.restart()
			if s := m.statuses(); len(s) != 0 {
				t.Errorf("statuses %v", s)
			}
		})
	}
}

func TestFilesOfOthersAreNobodysBusiness(t *testing.T) {
	m := delivered(t)
	if err := os.WriteFile(filepath.Join(m.dir, "mine.txt"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if s := m.statuses(); len(s) != 2 {
		t.Errorf("statuses %v, want those of the delivered files alone", s)
	}
}

func FuzzManifest(f *testing.F) {
	f.Add([]byte(`{"a.txt":{"size":3,"sha256":"","modified":"2026-01-02T03:04:05Z"}}`))
	f.Add([]byte(`{"../x":{}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		m := newMachine(t)
		if err := os.WriteFile(filepath.Join(m.dir, ".manifest"), data, 0o600); err != nil {
			t.Fatal(err)
		}
		m.restart()
		for name := range m.statuses() {
			if !files.ValidName(name) {
				t.Errorf("a status of %q", name)
			}
		}
	})
}
