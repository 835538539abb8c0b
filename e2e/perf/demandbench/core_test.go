package demandbench

import "testing"

// A number of a slow core is scaled, and stands beside the raw one; one of a fast core stands as it is.
func TestSlowCoresAreScaled(t *testing.T) {
	slow, fast := core{model: "m", slower: 2}, core{model: "m", slower: 0.5}
	if r := slow.cost("cycle", "ms", 30, 15); r.Ours != 15 || !r.Met() || r.Name != "cycle (raw 30 ms)" {
		t.Errorf("cost on a slow core: %+v", r)
	}
	if r := fast.cost("cycle", "ms", 16, 15); r.Ours != 16 || r.Met() || r.Name != "cycle" {
		t.Errorf("cost on a fast core: %+v", r)
	}
	if r := slow.rate("ingest", "1/s", 3000, 5000); r.Ours != 6000 || !r.Met() {
		t.Errorf("rate on a slow core: %+v", r)
	}
	if got := slow.or(fast); got != fast {
		t.Errorf("the faster of two is %+v", got)
	}
}

func TestCalibrationMeasuresSomething(t *testing.T) {
	if c := calibrate(); c.slower <= 0 || c.model == "" {
		t.Errorf("%+v", c)
	}
	t.Log(calibrate(), loop())
}
