package names_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"nstance.dev/operator/names"
)

func TestPlaces(t *testing.T) {
	places := []names.Place{{Group: "api", Shard: "us-west-2a"}, {Group: "web", Shard: "us-west-2a"}, {Group: "web", Shard: "us-west-2b"}}
	text := names.FormatPlaces(append([]names.Place{places[2], places[0]}, places...))
	if text != "api--us-west-2a,web--us-west-2a,web--us-west-2b" {
		t.Errorf("written as %q", text)
	}
	if diff := cmp.Diff(places, names.ParsePlaces(" "+text+",,nonsense")); diff != "" {
		t.Error(diff)
	}
	if got := names.ParsePlaces(""); got != nil {
		t.Errorf("nothing reads as %v", got)
	}
}
