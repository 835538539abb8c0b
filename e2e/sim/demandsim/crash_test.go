package demandsim_test

import (
	"fmt"
	"testing"
)

// TestE3_WhatACrashLeftIsCarriedOn ends the leader in front of each effect while machines come up: the
// next one carries on what it finds in the records, and every Pod runs.
func TestE3_WhatACrashLeftIsCarriedOn(t *testing.T) {
	for effects := range 10 {
		t.Run(fmt.Sprintf("after %d effects", effects), func(t *testing.T) {
			res := search.Play(t, plan(t, fmt.Sprintf("set mode liveness\nset length 10m\n1m set cluster-a huge web 3\n1m10s crash %d", effects)))
			for _, v := range res.Violations {
				t.Errorf("%s", v)
			}
			if counts := count(t, res.Log); counts["leader"] < 2 {
				t.Errorf("%d leaders: the crash did not happen", counts["leader"])
			}
		})
	}
}
