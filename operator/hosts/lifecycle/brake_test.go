package lifecycle

import (
	"fmt"
	"testing"
	"time"
)

func goneSince(n int, at time.Time) map[string]time.Time {
	all := map[string]time.Time{}
	for i := range n {
		all[fmt.Sprintf("m%d", i)] = at
	}
	return all
}

// M87: more than three and more than a tenth within five minutes.
func TestM87_Limit(t *testing.T) {
	for _, tt := range []struct {
		machines, missing int
		on                bool
	}{
		{1, 1, false}, {4, 3, false}, {4, 4, true}, {30, 3, false}, {30, 4, true}, {49, 4, false}, {49, 5, true},
		{500, 50, false}, {500, 51, true}, {500, 100, true},
	} {
		b := Brake{}.Next(goneSince(tt.missing, now), tt.machines, now)
		if b.On() != tt.on {
			t.Errorf("%d of %d: on is %v", tt.missing, tt.machines, b.On())
		}
		if why := b.Why(1); (why != "") != tt.on {
			t.Errorf("%d of %d, one is repaved: %q", tt.missing, tt.machines, why)
		}
		if why := b.Why(0); why != "" {
			t.Errorf("%d of %d, none is repaved: %q", tt.missing, tt.machines, why)
		}
	}
}

// M87: the brake counts what goes missing within five minutes, lets go after fifteen minutes with
// less, and counts no machine twice that waits.
func TestM87_OverTime(t *testing.T) {
	b := Brake{}
	missing := map[string]time.Time{}
	for i := range 10 { // one a minute: never more than five within five minutes
		missing[fmt.Sprint(i)] = now.Add(time.Duration(i) * time.Minute)
		if b = b.Next(missing, 50, now.Add(time.Duration(i)*time.Minute)); b.On() {
			t.Fatalf("on after %d minutes", i)
		}
	}
	at := now.Add(time.Hour)
	b = b.Next(goneSince(100, at), 500, at)
	for _, tt := range []struct {
		after time.Duration
		on    bool
	}{{time.Minute, true}, {5*time.Minute - time.Second, true}, {5 * time.Minute, true}, {19 * time.Minute, true}, {20 * time.Minute, false}} {
		b = b.Next(goneSince(100, at), 500, at.Add(tt.after)) // they still wait
		if b.On() != tt.on {
			t.Errorf("after %v: on is %v", tt.after, b.On())
		}
	}
}

// M87: machines that were repaved meanwhile still count within the five minutes, a user's word ends
// it at once for what is missed by then, and what goes missing later counts anew.
func TestM87_Released(t *testing.T) {
	b := Brake{}.Next(goneSince(100, now), 500, now).Next(goneSince(10, now), 500, now.Add(time.Minute))
	if !b.On() {
		t.Fatal("off, since machines were repaved")
	}
	b = b.Released(now.Add(time.Minute)).Next(goneSince(100, now), 500, now.Add(time.Minute))
	if b.On() {
		t.Fatal("on after it was released")
	}
	later := now.Add(2 * time.Minute)
	if b = b.Next(goneSince(51, later), 500, later); !b.On() {
		t.Error("off, although as many went missing again")
	}
}

// M87: a process that starts learns from statuses that the brake was on.
func TestM87_AfterAStart(t *testing.T) {
	b := Brake{}.Held(now.Add(-time.Minute)).Held(now.Add(-2 * time.Minute))
	if b = b.Next(goneSince(5, now.Add(-time.Minute)), 500, now); !b.On() {
		t.Error("off after a start")
	}
	if b = b.Next(nil, 500, now.Add(15*time.Minute)); b.On() {
		t.Error("on for ever")
	}
	if b = (Brake{}).Released(now).Held(now.Add(-time.Second)); b.On() {
		t.Error("on again by a status of before it was released")
	}
}
