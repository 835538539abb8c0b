package aws

import (
	"bytes"
	"os"
	"testing"

	"nstance.dev/providers/aws/internal/parameters"
)

// The rules' table is that of the SDK which this build has.
func TestParametersAreThoseOfTheSDK(t *testing.T) {
	table, err := parameters.Table()
	if err != nil {
		t.Fatal(err)
	}
	if committed, err := os.ReadFile("rules/parameters.json"); err != nil || !bytes.Equal(committed, table) {
		t.Errorf("rules/parameters.json is out of date (%v): run go generate in the provider's folder, or make generate", err)
	}
}
