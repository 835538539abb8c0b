package journal_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"nstance.dev/agent/paver/assignment"
	"nstance.dev/agent/paver/journal"
)

func full() journal.Journal {
	c := assignment.Configuration{Name: "gpu", Version: 2, UID: "c", Hash: "sha256:" + strings.Repeat("a", 64)}
	return journal.Journal{
		V: journal.Version, MachineUID: "m", Active: journal.A, Epoch: 2, Hash: c.Hash,
		Contents: map[journal.Slot]journal.Content{journal.A: {Configuration: c, Epoch: 1, BootID: "b", Leader: journal.Leader{PID: 7, StartTime: 8}}},
		Settings: map[string]string{"kernel/panic": "0"}, Network: []byte(`{"links":["lo"]}`),
		Outcome: &journal.Outcome{Epoch: 1, Result: journal.Kept, Error: "<no> & \u2028"},
		Transition: &journal.Transition{
			Kind: journal.KindBuild, Epoch: 2, From: journal.A, To: journal.B, Stage: journal.Boot, Since: time.Unix(1, 5).UTC(),
			Assignment: assignment.Assignment{NodeName: "n", Epoch: 2, Mode: assignment.Repave, Configuration: c, Wire: []byte(`{"a":1}`)},
			Marks:      journal.Marks{BootID: "x", CredentialUntil: time.Unix(9, 0).UTC()},
		},
	}
}

func TestAJournalIsReadBack(t *testing.T) {
	f := journal.File{Path: filepath.Join(t.TempDir(), "journal.json")}
	j, fresh, err := f.Load()
	if err != nil || !fresh || j.V != journal.Version {
		t.Errorf("a missing one: %+v, %v, %v", j, fresh, err)
	}
	for _, want := range []journal.Journal{j, full()} {
		if err := f.Save(want); err != nil {
			t.Fatal(err)
		}
		got, fresh, err := f.Load()
		if err != nil || fresh {
			t.Fatalf("fresh %v, %v", fresh, err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
	}
	info, err := os.Stat(f.Path)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
	if err := errors.Join(f.Remove(), f.Remove()); err != nil {
		t.Error(err)
	}
	if entries, err := os.ReadDir(filepath.Dir(f.Path)); err != nil || len(entries) > 0 {
		t.Errorf("left over: %v, %v", entries, err)
	}
}

// Every byte counts: a journal that was changed anywhere is not believed.
func TestAJournalThatWasChangedIsCorrupt(t *testing.T) {
	text, err := journal.Encode(full())
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "journal.json")
	for i := range text {
		for _, with := range []byte{'0', ' ', 'x'} {
			changed := bytes.Clone(text)
			changed[i] = with
			j, err := journal.Decode(changed)
			if err == nil && cmp.Diff(full(), j) != "" {
				t.Fatalf("with %q at %d it is another one", with, i)
			}
			if err != nil && !errors.Is(err, journal.ErrCorrupt) {
				t.Fatalf("with %q at %d: %v", with, i, err)
			}
		}
	}
	for _, content := range [][]byte{nil, text[:len(text)-1], []byte("null"), []byte(`{}`), append(bytes.Clone(text), text...), make([]byte, journal.MaxSize+1)} {
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatal(err)
		}
		if _, _, err := (journal.File{Path: path}).Load(); !errors.Is(err, journal.ErrCorrupt) {
			t.Errorf("%.20q: %v", content, err)
		}
		if after, err := os.ReadFile(path); err != nil || !bytes.Equal(after, content) {
			t.Errorf("%.20q was changed", content)
		}
	}
}

// What contradicts itself is neither written nor believed.
func TestWhatContradictsItself(t *testing.T) {
	for name, change := range map[string]func(*journal.Journal){
		"v":          func(j *journal.Journal) { j.V = 2 },
		"active":     func(j *journal.Journal) { j.Active = "c" },
		"previous":   func(j *journal.Journal) { j.Previous = j.Active },
		"contents":   func(j *journal.Journal) { j.Contents[""] = journal.Content{} },
		"kind":       func(j *journal.Journal) { j.Transition.Kind = "" },
		"stage":      func(j *journal.Journal) { j.Transition.Stage = "bake" },
		"from":       func(j *journal.Journal) { j.Transition.To = journal.A },
		"epoch":      func(j *journal.Journal) { j.Transition.Epoch = 3 },
		"assignment": func(j *journal.Journal) { j.Transition.Assignment.Configuration.Hash = "?" },
		"negative":   func(j *journal.Journal) { j.Epoch, j.Transition = -1, nil },
		"more than":  func(j *journal.Journal) { j.Network = []byte(`"` + strings.Repeat("x", journal.MaxSize) + `"`) },
	} {
		j := full()
		change(&j)
		if _, err := journal.Encode(j); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestErrorsAreCut(t *testing.T) {
	for text, want := range map[string]int{
		"short": 5, strings.Repeat("x", 600): 512, strings.Repeat("é", 600): 512, "x" + strings.Repeat("é", 600): 511,
	} {
		if got := journal.Cut(text); len(got) != want || !strings.HasPrefix(text, got) {
			t.Errorf("%d bytes, want %d", len(got), want)
		}
	}
}

func FuzzDecode(f *testing.F) {
	text, err := journal.Encode(full())
	if err != nil {
		f.Fatal(err)
	}
	f.Add(text)
	f.Add([]byte(`{"sha256":"","payload":{"v":1}}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		j, err := journal.Decode(text)
		if err != nil {
			if !errors.Is(err, journal.ErrCorrupt) {
				t.Errorf("%v", err)
			}
			return
		}
		again, err := journal.Encode(j)
		if err != nil {
			t.Fatalf("what was believed cannot be written: %v", err)
		}
		if back, err := journal.Decode(again); err != nil || cmp.Diff(j, back) != "" {
			t.Errorf("read back: %v", err)
		}
	})
}
