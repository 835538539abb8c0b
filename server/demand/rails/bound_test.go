package rails

import "testing"

// What a loop remembers does not grow with the creates of a cluster in which nothing fails.
func TestLoopForgets(t *testing.T) {
	var l Loop
	for i := range int64(10_000) {
		l.Created(i * 1000)
	}
	if n := len(l.created.entries); n > loopSpan/1000+1 {
		t.Errorf("%d moments are remembered", n)
	}
}
