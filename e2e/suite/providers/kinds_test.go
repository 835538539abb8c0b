package providers_test

import (
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"nstance.dev/e2e/suite/providers"
)

// row is a kind of trouble in docs/testing.md, and the clouds that cannot have it.
var row = regexp.MustCompile("(?m)^\\| `([a-z-]+)` \\|[^|]*\\|[^|]*\\| ([^|:]*)[^|]*\\|$")

func TestEveryKindOfTroubleIsDocumented(t *testing.T) {
	page, err := os.ReadFile("../../../docs/testing.md")
	if err != nil {
		t.Fatal(err)
	}
	documented := map[string]bool{}
	for _, match := range row.FindAllStringSubmatch(string(page), -1) {
		kind, spared := match[1], match[2]
		documented[kind] = true
		for cloud, never := range providers.Never {
			if _, cannot := never[kind]; cannot != strings.Contains(spared, cloud) {
				t.Errorf("%s: that it is not on %s is %t, and documented as %t", kind, cloud, cannot, !cannot)
			}
		}
	}
	if got := slices.Sorted(maps.Keys(documented)); !slices.Equal(got, slices.Sorted(slices.Values(providers.Kinds))) {
		t.Errorf("documented are %v,\nthere are %v", got, providers.Kinds)
	}
}
