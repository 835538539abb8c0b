package gcp

import (
	"bytes"
	"os"
	"testing"

	"nstance.dev/providers/gcp/internal/messages"
)

// The rules' description of an instance is that of the SDK which this build has.
func TestInstanceIsThatOfTheSDK(t *testing.T) {
	file, err := messages.File()
	if err != nil {
		t.Fatal(err)
	}
	if committed, err := os.ReadFile("rules/instance.json"); err != nil || !bytes.Equal(committed, file) {
		t.Errorf("rules/instance.json is out of date (%v): run go generate in the provider's folder, or make generate", err)
	}
}
