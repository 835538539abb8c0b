package settings_test

import (
	"testing"

	"nstance.dev/operator/pagetest"
	"nstance.dev/operator/settings"
)

func TestThePageHasEverySetting(t *testing.T) {
	pagetest.Holds(t, "docs/kubernetes/operator.md", "settings", "operator/settings", settings.Reference())
}
