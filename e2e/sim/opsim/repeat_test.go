//go:build !race

package opsim_test

import (
	"testing"
	"time"
)

// TestSeedsRepeat: a seed goes the same way again for as long as the goroutines of the
// libraries under the operator let it, which the package describes. What is open in the first
// minute of these seeds are a handful of choices between two orders, so of sixteen runs two
// agree; nearly always two of the first four do.
func TestSeedsRepeat(t *testing.T) { search.Agree(t, 501, 2, 16, 2*time.Minute, time.Minute) }
