package creation

import (
	"slices"
	"testing"

	"nstance.dev/providers/proxmox/api"
	"nstance.dev/server/driver"
)

func TestNumbers(t *testing.T) {
	var n numbers
	for i, c := range []struct {
		used []int
		want int
	}{
		{nil, 10_000},
		{[]int{9_000}, 10_001},
		{[]int{10_001}, 10_002}, // not seen yet in what was listed
		{[]int{100, 10_500}, 10_501},
		{[]int{10_400}, 10_502},
	} {
		if got, err := n.take(c.used); err != nil || got != c.want {
			t.Errorf("no. %d, above %v: %d, %v; want %d", i, c.used, got, err, c.want)
		}
	}
}

// A machine with the last number, which somebody chose by hand, leaves all the numbers
// below: they are taken from the first one that is free, each once.
func TestNumbersWhenTheLastOneIsTaken(t *testing.T) {
	n := numbers{last: 10_002}
	used := []int{100, 10_000, 10_001, 10_004, maxNumber}
	for _, want := range []int{10_002, 10_003, 10_005, 10_006} {
		got, err := n.take(used)
		if err != nil || got != want || slices.Contains(used, got) {
			t.Errorf("%d, %v; want %d", got, err, want)
		}
	}
	if got, err := n.take([]int{10_100}); err != nil || got != 10_101 {
		t.Errorf("after the last one has gone: %d, %v", got, err)
	}
}

func TestNoNumberIsLeft(t *testing.T) {
	if got, err := firstFree(999_999_990, func(int) bool { return true }); driver.ClassOf(api.FailAs(api.KindOf(err), "create", err)) != driver.Quota {
		t.Errorf("%d, %v; want an error of class %s", got, err, driver.Quota)
	}
}
