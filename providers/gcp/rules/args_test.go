package rules

import (
	"slices"
	"strings"
	"testing"

	"nstance.dev/server/driver/drivertest/docpage"
)

// Every argument is on the provider's page, as one that can be set or one that the
// server sets.
func TestArgumentsOnThePage(t *testing.T) {
	var documented []string
	for _, cells := range docpage.Read(t, "../../../docs/providers/gcp.md", "Arguments").Rows() {
		for _, name := range docpage.Code(cells[0]) {
			documented = append(documented, name)
			forbidden := strings.Contains(cells[1], "set by the server")
			if forbidden != slices.Contains(forbiddenArgs, name) {
				t.Errorf("%s: set by the server is %t on the page", name, forbidden)
			}
			err := checkArg(name, "{{ .Vars.x }}")
			if (err == nil) == forbidden {
				t.Errorf("check of %s: %v", name, err)
			}
		}
	}
	docpage.Same(t, "argument", slices.Concat(argumentNames(), forbiddenArgs), documented)
}
