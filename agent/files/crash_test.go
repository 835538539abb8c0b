package files_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"nstance.dev/agent/files"
)

// A crash leaves the directory as one of the steps of a commit made it. From each of them
// the next process must reach the old state or the new one, and nothing between.
func TestACommitIsAllOrNothingAcrossACrash(t *testing.T) {
	const note = `{"hash":"new","files":["a.txt","b.txt"]}`
	type tree map[string]string
	for _, tt := range []struct {
		name string
		disk tree
		in   string
		hash string
	}{
		{"while staging", tree{".staging/a.txt": "2", "a.txt": "1"}, "a.txt=1", "old"},
		{"before the note", tree{".staging/a.txt": "2", ".staging/b.txt": "2", "a.txt": "1"}, "a.txt=1", "old"},
		{"while the note was written", tree{".staging/.commit123": note[:10], ".staging/a.txt": "2", "a.txt": "1"}, "a.txt=1", "old"},
		{"after the note", tree{".staging/.commit": note, ".staging/a.txt": "2", ".staging/b.txt": "2", "a.txt": "1"}, "a.txt=2 b.txt=2", "new"},
		{"after the first rename", tree{".staging/.commit": note, ".staging/b.txt": "2", "a.txt": "2"}, "a.txt=2 b.txt=2", "new"},
		{"after the last rename", tree{".staging/.commit": note, "a.txt": "2", "b.txt": "2"}, "a.txt=2 b.txt=2", "new"},
		{"a note of nobody", tree{".staging/.commit": `{"hash":"new","files":["../x"]}`, ".staging/a.txt": "2", "a.txt": "1"}, "a.txt=1", "old"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			m := newMachine(t)
			for name, content := range tt.disk {
				if err := os.WriteFile(filepath.Join(m.dir, name), []byte(content), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			m.restart()
			m.expect(tt.in, tt.hash)
			m.restart() // and a second crash changes nothing
			m.expect(tt.in, tt.hash)
			if left, err := os.ReadDir(filepath.Join(m.dir, ".staging")); err != nil || len(left) > 0 {
				t.Errorf("left in staging: %v, %v", left, err)
			}
		})
	}
}

func TestAnErrorAfterTheNoteIsMadeGood(t *testing.T) {
	for _, tt := range []struct {
		name string
		next func(*machine) error
		in   string
	}{
		{"by the next start", func(m *machine) (err error) { m.store, err = files.Open(m.options()); return err }, "a.txt=1"},
		{"by the end of the stream", func(m *machine) error { return m.store.Discard() }, "a.txt=1"},
		{"by the next file", func(m *machine) error { return m.store.Stage("b.txt", []byte("2"), modified) }, "a.txt=1"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			m := newMachine(t)
			m.stage("a.txt", "1")
			m.hashErr = errors.New("disk full")
			if err := m.store.Commit("new"); !errors.Is(err, m.hashErr) {
				t.Fatalf("Commit() = %v, want %v", err, m.hashErr)
			}
			if err := tt.next(m); !errors.Is(err, m.hashErr) {
				t.Errorf("error %v while the disk is full, want %v", err, m.hashErr)
			}
			m.hashErr = nil
			if err := tt.next(m); err != nil {
				t.Fatal(err)
			}
			m.expect(tt.in, "new")
		})
	}
}
