//go:build !race

package sim_test

import "testing"

// TestSeedsRepeat: a seed that has found something finds it again, on one processor. One of
// ten may part each time, for what the package says is left to the goroutines. With the
// race detector the scheduler shuffles goroutines on purpose, so this test runs without it.
func TestSeedsRepeat(t *testing.T) { search.Repeats(t, 501, 10, 4, 9) }
