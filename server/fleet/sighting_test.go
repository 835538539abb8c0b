package fleet_test

import (
	"testing"
	"time"

	"nstance.dev/server/fleet"
)

// TestF20_AbsenceBeginsAnewWithACreate: what was missing before its create was sent
// again is looked for anew, and one miss since then proves nothing (S5).
func TestF20_AbsenceBeginsAnewWithACreate(t *testing.T) {
	const lag = 10 * time.Second
	asked := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	again := asked.Add(time.Minute)
	a := fleet.Absence{}.Missed(fleet.ByList, asked.Add(lag), asked, lag)
	if want := asked.Add(lag); a.First != want {
		t.Fatalf("the absence begins at %v, want %v", a.First, want)
	}
	a = a.Missed(fleet.ByList, again.Add(lag-time.Second), again, lag)
	if a.Last != asked.Add(lag) {
		t.Error("a miss counts though the provider need not show the machine yet")
	}
	a = a.Missed(fleet.ByGet, again.Add(lag), again, lag)
	if a.Confirmed() {
		t.Errorf("%+v is confirmed by one miss since the create was sent again", a)
	}
	if a = a.Missed(fleet.ByList, again.Add(lag+time.Second), again, lag); !a.Confirmed() {
		t.Errorf("%+v is not confirmed by a Get and a listing", a)
	}
}
