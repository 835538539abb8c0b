package document_test

import (
	"encoding/json"
	"testing"

	"nstance.dev/server/config/document"
)

// A group that is to buy reserved capacity alone says so by an empty list, which is not the same as none:
// without a list it buys on-demand machines.
func TestDemand_AnEmptyListOfCapacityTypesIsStored(t *testing.T) {
	for _, want := range []string{`{"capacity_types":[]}`, `{}`} {
		var d document.Demand
		if err := json.Unmarshal([]byte(want), &d); err != nil {
			t.Fatal(err)
		}
		got, err := json.Marshal(d)
		if err != nil {
			t.Fatal(err)
		}
		if string(got) != want {
			t.Errorf("%s is stored as %s", want, got)
		}
	}
}
