package drivertest

import (
	"slices"
	"testing"

	"nstance.dev/server/driver/drivertest/conformance"
)

// TestEachBehaviourIsTried by one test of the suite.
func TestEachBehaviourIsTried(t *testing.T) {
	var tried []int
	for _, test := range tests {
		if len(test.shows) == 0 {
			t.Errorf("%s shows nothing of the catalogue", test.name)
		}
		tried = append(tried, test.shows...)
	}
	slices.Sort(tried)
	var all []int
	for _, b := range conformance.Catalogue {
		all = append(all, b.Number)
	}
	if !slices.Equal(tried, all) {
		t.Errorf("tests show %v, and the catalogue has %v", tried, all)
	}
}
