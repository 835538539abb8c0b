package files_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"nstance.dev/agent/files"
)

var errPower = errors.New("the power is gone")

// dying is a disk whose machine loses its power at one of the calls that change something:
// before the call, after it, or, where content is written, in its middle.
type dying struct {
	files.Disk
	at    int // number of the call, from 1
	how   moment
	calls int
	trace []string
}

type moment int

const (
	before moment = iota
	within
	after
)

func (m moment) String() string { return [...]string{"before", "within", "after"}[m] }

// step makes one call, unless the power is gone.
func (d *dying) step(what string, half, whole func() error) error {
	d.calls++
	d.trace = append(d.trace, what)
	switch {
	case d.calls < d.at || d.at == 0:
		return whole()
	case d.calls > d.at || d.how == before:
		return errPower
	case d.how == within && half != nil:
		return errors.Join(half(), errPower)
	default:
		return errors.Join(whole(), errPower)
	}
}

func (d *dying) Write(path string, content []byte, mode fs.FileMode, modTime time.Time) error {
	return d.step("write "+filepath.Base(path),
		func() error { return d.Disk.Write(path, content[:len(content)/2], mode, modTime) },
		func() error { return d.Disk.Write(path, content, mode, modTime) })
}

func (d *dying) Replace(path string, content []byte, mode fs.FileMode) error {
	return d.step("replace "+filepath.Base(path),
		func() error { return os.WriteFile(path+"123", content[:len(content)/2], mode) }, // beside it, never into it
		func() error { return d.Disk.Replace(path, content, mode) })
}

func (d *dying) Rename(from, to string) error {
	return d.step("rename "+filepath.Base(to), nil, func() error { return d.Disk.Rename(from, to) })
}

func (d *dying) Remove(path string) error {
	return d.step("remove "+filepath.Base(path), nil, func() error { return d.Disk.Remove(path) })
}

func (d *dying) SyncDir(dir string) error {
	return d.step("sync", nil, func() error { return d.Disk.SyncDir(dir) })
}

// deliver stages and commits the second version of everything, on a disk that may die.
func (m *machine) deliver(d *dying) error {
	o := m.options()
	store := o.StoreHash
	o.StoreHash = func(hash string) error {
		return d.step("store hash", nil, func() error { return store(hash) })
	}
	s, err := files.OpenOn(o, d)
	if err != nil {
		return err
	}
	for _, name := range []string{"a.txt", "b.txt", "c.txt"} {
		if err := s.Stage(name, []byte("version 2"), modified); err != nil {
			return err
		}
	}
	return s.Commit("new")
}

// Every call that changes something is a point at which the power can go. After each of
// them the next process finds everything old or everything new.
func TestACommitIsAllOrNothingWhereverThePowerGoes(t *testing.T) {
	points := 0
	for at := 1; ; at++ {
		var trace []string
		for _, how := range []moment{before, within, after} {
			m := newMachine(t)
			m.stage("a.txt", "1")
			m.stage("b.txt", "1")
			if err := m.store.Commit("old"); err != nil {
				t.Fatal(err)
			}
			d := &dying{Disk: files.OperatingSystem(), at: at, how: how}
			if err := m.deliver(d); err == nil {
				if points < 10 {
					t.Fatalf("only %d points were tried: %v", points, d.trace)
				}
				return // at is beyond the last call
			}
			points, trace = at, d.trace
			t.Run(fmt.Sprintf("%02d_%v_%s", at, how, trace[at-1]), func(t *testing.T) { m.t = t; m.allOrNothing() })
		}
	}
}

// allOrNothing starts the machine again, twice, and looks at it.
func (m *machine) allOrNothing() {
	m.t.Helper()
	var first string
	for range 2 {
		m.restart()
		want := map[string]files.Status{"a.txt": inPlace("1"), "b.txt": inPlace("1")}
		if m.hash == "new" {
			m.expect("a.txt=version 2 b.txt=version 2 c.txt=version 2", "new")
			want = map[string]files.Status{"a.txt": inPlace("version 2"), "b.txt": inPlace("version 2"), "c.txt": inPlace("version 2")}
		} else {
			m.expect("a.txt=1 b.txt=1", "old")
		}
		if diff := cmp.Diff(want, m.statuses()); diff != "" {
			m.t.Errorf("what is reported is not what is there:\n%s", diff)
		}
		if first != "" && first != m.hash {
			m.t.Errorf("hash %s after the second start, %s after the first", m.hash, first)
		}
		first = m.hash
		if left, err := os.ReadDir(filepath.Join(m.dir, ".staging")); err != nil || len(left) > 0 {
			m.t.Errorf("left in staging: %v, %v", left, err)
		}
	}
}

func TestANoteThatIsNoneIsDiscarded(t *testing.T) {
	for name, note := range map[string]string{
		"half":                    `{"hash":"new","files":{"a.t`,
		"without a hash":          `{"files":{"a.txt":{}}}`,
		"of files that are paths": `{"hash":"new","files":{"../x":{}}}`,
	} {
		t.Run(name, func(t *testing.T) {
			m := newMachine(t)
			m.stage("a.txt", "1")
			if err := os.WriteFile(filepath.Join(m.dir, ".staging", ".commit"), []byte(note), 0o600); err != nil {
				t.Fatal(err)
			}
			m.restart()
			m.expect("", "old")
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
