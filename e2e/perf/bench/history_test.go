package bench

import (
	"errors"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestHistoryNamesWhatChanged(t *testing.T) {
	h := History(filepath.Join(t.TempDir(), "history.jsonl"))
	first := Setting{Commit: "one", Date: time.Date(2030, 1, 2, 0, 0, 0, 0, time.UTC), Machine: "fast, 2 cores"}
	row := func(number, name string, ours float64) Row {
		return Row{Measure: number, Name: name, Ours: ours, Floor: 10}
	}
	rows := []Row{row("P1", "a", 10), row("G1", "cycle (raw 30 ms)", 20), row("G2", "quiet", 10), {Measure: "P3", Err: errors.New("none")}}
	for _, s := range []Setting{first, {Commit: "slow", Date: first.Date, Machine: "slow, 2 cores"}} {
		if err := h.Add(s, rows); err != nil {
			t.Fatal(err)
		}
		rows[0].Ours = 99 // on another machine
	}
	past, err := h.Read()
	if err != nil || len(past) != 6 {
		t.Fatalf("%d lines, %v", len(past), err)
	}
	second := Setting{Commit: "two", Date: first.Date, Machine: first.Machine}
	got := Changes(past, second, []Row{row("P1", "a", 10.4), row("G1", "cycle (raw 28 ms)", 15), row("G2", "quiet", 12), row("G9", "new", 1)})
	want := []string{
		"G1, cycle: -25 % since one (2030-01-02): 1.50, was 2.00",
		"G2, quiet: +20 % since one (2030-01-02): 1.20, was 1.00",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("changes (-want +got):\n%s", diff)
	}
}

func TestHistoryThatDoesNotExistIsEmpty(t *testing.T) {
	past, err := History(filepath.Join(t.TempDir(), "none")).Read()
	if err != nil || len(past) != 0 {
		t.Errorf("%v, %v", past, err)
	}
}
