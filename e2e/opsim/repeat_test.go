//go:build !race

package opsim_test

import (
	"testing"
	"time"
)

// TestSeedsRepeat: a seed goes the same way again for as long as the goroutines of the
// libraries under the operator let it, which the package describes.
func TestSeedsRepeat(t *testing.T) { search.Agree(t, 501, 2, 2*time.Minute, time.Minute) }
