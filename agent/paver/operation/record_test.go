package operation

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// over is an operation that ended at a moment.
func over(id string, ended, deadline time.Time) Record {
	r := restartsKubelet()
	r.ID, r.Deadline = id, deadline
	return r.End(Outcome{}, ended)
}

// TestM75_WhatIsKept: an operation is known for a day after its end, and for as long as it could be asked
// for again; what waits is never dropped.
func TestM75_WhatIsKept(t *testing.T) {
	day := now.Add(-Kept)
	var b Book
	for _, r := range []Record{
		over("old", day, day), over("young", day.Add(time.Second), day), over("old, with a deadline to come", day, now.Add(time.Minute)),
	} {
		b = b.With(r, day)
	}
	waiting := restartsKubelet()
	waiting.Taken = day.Add(-time.Hour)
	b = b.With(waiting, now)
	for id, want := range map[string]bool{"old": false, "young": true, "old, with a deadline to come": true, "op": true} {
		if _, known := b.Find(id); known != want {
			t.Errorf("%s is known: %v, want %v", id, known, want)
		}
	}
	if r, is := b.Current(); !is || r.ID != "op" || b.Waiting() != 1 {
		t.Errorf("current: %v, %v; %d wait", r.ID, is, b.Waiting())
	}
	for i := range Most + 10 {
		b = b.With(over(fmt.Sprint("n", i), now, now.Add(time.Hour)), now)
	}
	if _, known := b.Find("op"); !known || len(b.Records) != Most {
		t.Errorf("%d are kept, the one that waits: %v", len(b.Records), known)
	}
	told := b.Told(now)
	if len(told) != MostTold+1 || told[0].ID != "op" || told[len(told)-1].ID != fmt.Sprint("n", Most+9) {
		t.Errorf("%d are told, from %s", len(told), told[0].ID)
	}
}

// TestM75_TheBookOnDisk: what was written is read; what is not what was written is not believed.
func TestM75_TheBookOnDisk(t *testing.T) {
	f := File{Path: filepath.Join(t.TempDir(), "operations.json")}
	if b, err := f.Load(); err != nil || len(b.Records) > 0 {
		t.Errorf("%v, %v", b, err)
	}
	want := Book{}.With(begun(restartsKubelet(), 1), now)
	if err := f.Save(want); err != nil {
		t.Fatal(err)
	}
	got, err := f.Load()
	if r, known := got.Find("op"); err != nil || !known || r.Marks.Times != 1 || !r.Deadline.Equal(want.Records[0].Deadline) || r.Parameters["service"] != "kubelet" {
		t.Errorf("%+v, %v", got, err)
	}
	text, err := os.ReadFile(f.Path)
	if err != nil {
		t.Fatal(err)
	}
	for name, bad := range map[string][]byte{"cut": text[:len(text)/2], "changed": append([]byte{'['}, text[1:]...), "empty": nil} {
		if err := os.WriteFile(f.Path, bad, 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := f.Load(); !errors.Is(err, ErrCorrupt) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := f.Remove(); err != nil {
		t.Fatal(err)
	}
}
