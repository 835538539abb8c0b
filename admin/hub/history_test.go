package hub

import (
	"fmt"
	"testing"
	"time"

	nstancev1 "nstance.dev/protos/nstance/v1"
)

func TestS22_TheHistoryOfAGroupThatIsGoneIsForgottenAfterADay(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	h := New([]Shard{{Name: "s"}}, Options{Now: func() time.Time { return now }})
	list := func(keys ...string) {
		began := h.beginList("s", groups)
		var all []listed
		for _, key := range keys {
			all = append(all, listed{key, 1, []byte(key)})
			h.sample("s", &nstancev1.GroupStatus{Key: key, Size: 1})
		}
		h.settleList("s", groups, began, all)
	}
	for n := range 1000 { // each lives for an hour
		list("stays", fmt.Sprint("short-", n))
		now = now.Add(time.Hour)
	}
	list("stays")
	if n := len(h.states["s"].histories); n > 26 {
		t.Errorf("%d histories are kept", n)
	}
	if len(h.History("s", "stays")) != 1 || len(h.History("s", "short-990")) != 1 {
		t.Error("a history of the last day is forgotten")
	}
}
