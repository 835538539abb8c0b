package metrics_test

import (
	"testing"

	"nstance.dev/operator/metrics"
	"nstance.dev/operator/pagetest"
)

func TestThePageHasEveryMetric(t *testing.T) {
	pagetest.Holds(t, "docs/kubernetes/operator.md", "metrics", "operator/metrics", metrics.Reference())
}
