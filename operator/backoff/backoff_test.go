package backoff

import (
	"fmt"
	"testing"
	"time"
)

func TestGrowing(t *testing.T) {
	var sum time.Duration
	n := 0
	for sum < 10*time.Minute {
		n++
		pause := Growing("web--a", n, time.Second, 5*time.Minute)
		want := min(time.Second<<min(n-1, 20), 5*time.Minute)
		if pause < want*4/5 || pause > want*6/5 {
			t.Errorf("pause %d is %v, want about %v", n, pause, want)
		}
		sum += pause
	}
	if n > 12 {
		t.Errorf("%d attempts in ten minutes", n)
	}
	if p := Growing("x", 1000, time.Second, 5*time.Minute); p < 4*time.Minute || p > 6*time.Minute {
		t.Errorf("after a thousand failures: %v", p)
	}
}

// Refusals of many objects are not repeated at the same time.
func TestRefusedIsSpread(t *testing.T) {
	seen := map[time.Duration]bool{}
	for i := range 100 {
		pause := Refused(fmt.Sprint("object ", i), 1)
		if pause < RefusedAtLeast || pause >= RefusedAtMost {
			t.Errorf("%v", pause)
		}
		seen[pause.Truncate(15*time.Second)] = true
		if again := Refused(fmt.Sprint("object ", i), 1); again != pause {
			t.Errorf("%v, and then %v", pause, again)
		}
	}
	if len(seen) < 15 {
		t.Errorf("100 objects fall into %d of 20 quarters of a minute", len(seen))
	}
}

func TestMemory(t *testing.T) {
	var m Memory
	now := time.Unix(1000, 0)
	pause := func(failures int) time.Duration { return time.Duration(failures) * time.Minute }
	if m.Get("a").Waits("x", now) != 0 {
		t.Error("an object that never failed waits")
	}
	m.Failed("a", "x", "no", now, pause)
	if got := m.Failed("a", "x", "no", now, pause); got != 2*time.Minute {
		t.Errorf("the second pause is %v", got)
	}
	a := m.Get("a")
	if a.Waits("x", now) != 2*time.Minute || a.Waits("x", now.Add(time.Hour)) != 0 || a.Waits("y", now) != 0 || m.Get("b").Failures != 0 {
		t.Errorf("%+v", a)
	}
	m.Forget("a")
	if m.Get("a") != (Attempt{}) {
		t.Error("not forgotten")
	}
}
