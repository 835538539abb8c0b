package settings_test

import (
	"flag"
	"os"
	"strings"
	"testing"

	"nstance.dev/operator/settings"
)

var update = flag.Bool("update", false, "write the tables into the page")

// page has the tables between two lines.
const (
	page  = "../../docs/kubernetes/operator.md"
	begin = "<!-- settings: begin, written by go test ./operator/settings -update -->\n"
	end   = "<!-- settings: end -->\n"
)

func TestThePageHasEverySetting(t *testing.T) {
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, found := strings.Cut(string(text), begin)
	_, after, closed := strings.Cut(rest, end)
	if !found || !closed {
		t.Fatalf("%s lacks the lines around the tables", page)
	}
	want := before + begin + settings.Reference() + end + after
	if *update {
		if err := os.WriteFile(page, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if string(text) != want {
		t.Errorf("%s is out of date; run go test ./operator/settings -update", page)
	}
}
