package rails_test

import (
	"testing"

	"nstance.dev/server/demand/rails"
)

func TestE5_Quarantine(t *testing.T) {
	type rollup struct {
		at      int64
		drastic bool
		held    bool
	}
	tests := []struct {
		name    string
		rollups []rollup
	}{
		{"what is not drastic is accepted", []rollup{{0, false, false}, {1000, false, false}}},
		{"the third after 20 seconds", []rollup{{0, true, true}, {10000, true, true}, {20000, true, false}}},
		{"the third too early, the fourth in time", []rollup{{0, true, true}, {1, true, true}, {19999, true, true}, {20000, true, false}}},
		{"the second after 20 seconds is not enough", []rollup{{0, true, true}, {60000, true, true}, {60001, true, false}}},
		{"another one in between begins again", []rollup{{0, true, true}, {10000, true, true}, {15000, false, false}, {20000, true, true}, {30000, true, true}, {40000, true, false}}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var q rails.Quarantine
			for _, r := range tt.rollups {
				if held := q.Hold(r.drastic, r.at); held != r.held {
					t.Fatalf("at %d ms: held %t, want %t", r.at, held, r.held)
				}
			}
		})
	}
}

func TestWindow(t *testing.T) {
	var w rails.Window
	w.Add(0, 2)
	w.Add(5000, 1)
	w.Add(5000, 1)
	for _, tt := range []struct{ now, want int64 }{{9999, 4}, {10000, 2}, {14999, 2}, {15000, 0}} {
		if got := w.Sum(tt.now, 10000); got != tt.want {
			t.Errorf("at %d: %d, want %d", tt.now, got, tt.want)
		}
	}
	if got := w.Expires(10000); got != 0 {
		t.Errorf("an empty window expires at %d", got)
	}
}

func TestLoop(t *testing.T) {
	var l rails.Loop
	for range 1000 {
		l.Created(0)
	}
	for range 200 {
		l.Failed(1000)
	}
	if l.Until() != 0 {
		t.Fatal("a fifth of the creates fails, and they are paused")
	}
	l.Failed(1000)
	if got := l.Until(); got != 601_000 {
		t.Fatalf("paused until %d", got)
	}
	for range 21 {
		l.Failed(700_000)
	}
	if got := l.Until(); got != 700_000+1_200_000 {
		t.Fatalf("the second pause ends at %d", got)
	}
}
