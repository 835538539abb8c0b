package demandloop

import (
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
)

// TestTheFirstRollupThatIsHeldIsAnIncrease: the series of held roll-ups is there from the first roll-up on. One that began
// with the first that is held would never grow for who looks at it then.
func TestTheFirstRollupThatIsHeldIsAnIncrease(t *testing.T) {
	reg := prometheus.NewRegistry()
	NewMetrics(reg).rollup("default", false)
	const want = `
# HELP nstance_demand_rollups_total Roll-ups by what became of them.
# TYPE nstance_demand_rollups_total counter
nstance_demand_rollups_total{outcome="accepted",tenant="default"} 1
nstance_demand_rollups_total{outcome="held",tenant="default"} 0
`
	if err := testutil.GatherAndCompare(reg, strings.NewReader(want), "nstance_demand_rollups_total"); err != nil {
		t.Error(err)
	}
}
