package capi_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"nstance.dev/operator/capi"
)

func TestPlaces(t *testing.T) {
	places := []capi.Place{{Group: "api", Shard: "us-west-2a"}, {Group: "web", Shard: "us-west-2a"}, {Group: "web", Shard: "us-west-2b"}}
	text := capi.FormatPlaces(append([]capi.Place{places[2], places[0]}, places...))
	if text != "api--us-west-2a,web--us-west-2a,web--us-west-2b" {
		t.Errorf("written as %q", text)
	}
	if diff := cmp.Diff(places, capi.ParsePlaces(" "+text+",,nonsense")); diff != "" {
		t.Error(diff)
	}
	if got := capi.ParsePlaces(""); got != nil {
		t.Errorf("nothing reads as %v", got)
	}
}
