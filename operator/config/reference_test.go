package config_test

import (
	"testing"

	"nstance.dev/operator/config"
	"nstance.dev/operator/pagetest"
)

func TestThePageHasEverySetting(t *testing.T) {
	pagetest.Holds(t, "docs/kubernetes/operator.md", "settings", "operator/config", config.Operator.Reference())
}
