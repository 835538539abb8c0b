package aws_test

import (
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const page = "../../docs/providers/aws.md"

// row is a call in the table of API calls: `| `RunInstances` | when | `ec2:RunInstances` … |`.
var row = regexp.MustCompile("(?m)^\\| `([A-Za-z]+)` \\|")

// checkDocumented compares the calls that a whole run of the contract made with
// the table on the provider's page: nothing is called that is not there, and
// nothing is there that is not called.
func checkDocumented(t *testing.T, made map[string]bool) {
	t.Helper()
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	_, table, found := strings.Cut(string(text), "\n## API calls and permissions\n")
	if !found {
		t.Fatalf("%s has no list of API calls", page)
	}
	table, _, _ = strings.Cut(table, "\n## ")
	listed := map[string]bool{}
	for _, match := range row.FindAllStringSubmatch(table, -1) {
		listed[match[1]] = true
	}
	for _, name := range slices.Sorted(maps.Keys(made)) {
		if !listed[name] {
			t.Errorf("%s is called, and %s does not list it", name, page)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(listed)) {
		if !made[name] {
			t.Errorf("%s lists %s, which is never called", page, name)
		}
	}
}
