package inventory_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"nstance.dev/operator/inventory"
)

func TestL8_CoolOffDoublesUpToAnEnd(t *testing.T) {
	start := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	var c inventory.CoolOff
	if c.Refuses(start) {
		t.Error("refuses before any refusal")
	}
	now := start
	for i, minutes := range []int{5, 10, 20, 30, 30} {
		c = c.Refused(now, inventory.Refusal{Why: "full"})
		if diff := cmp.Diff(inventory.CoolOff{Refusals: i + 1, Since: start, Until: now.Add(time.Duration(minutes) * time.Minute), Refusal: inventory.Refusal{Why: "full"}}, c); diff != "" {
			t.Fatal(diff)
		}
		if !c.Refuses(c.Until.Add(-1)) || c.Refuses(c.Until) {
			t.Errorf("refusal %d: wrong at the end of its cool-off", i+1)
		}
		now = c.Until
	}
	later := now.Add(inventory.Forgiven)
	if diff := cmp.Diff(inventory.CoolOff{}.Refused(later, inventory.Refusal{Why: "full"}), c.Refused(later, inventory.Refusal{Why: "full"})); diff != "" {
		t.Error("long after the last one:", diff)
	}
	if got := c.Refused(later.Add(-1), inventory.Refusal{Why: "full"}); got.Refusals != 6 {
		t.Errorf("it is forgiven early: %+v", got)
	}
	burst := inventory.CoolOff{}.Refused(start, inventory.Refusal{Why: "full"}).Refused(start.Add(time.Minute), inventory.Refusal{Why: "still full"})
	if diff := cmp.Diff(inventory.CoolOff{Refusals: 1, Since: start, Until: start.Add(inventory.FirstCoolOff), Refusal: inventory.Refusal{Why: "still full"}}, burst); diff != "" {
		t.Error("two in one cool-off:", diff)
	}
}
