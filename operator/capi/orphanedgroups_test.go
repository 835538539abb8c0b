package capi_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"nstance.dev/operator/capi"
)

func TestOrphanedGroups(t *testing.T) {
	groups := []capi.OrphanedGroup{{Group: "api", Shard: "us-west-2a"}, {Group: "web", Shard: "us-west-2a"}, {Group: "web", Shard: "us-west-2b"}}
	text := capi.FormatOrphanedGroups(append([]capi.OrphanedGroup{groups[2], groups[0]}, groups...))
	if text != "api--us-west-2a,web--us-west-2a,web--us-west-2b" {
		t.Errorf("written as %q", text)
	}
	if diff := cmp.Diff(groups, capi.ParseOrphanedGroups(" "+text+",,nonsense")); diff != "" {
		t.Error(diff)
	}
	if got := capi.ParseOrphanedGroups(""); got != nil {
		t.Errorf("nothing reads as %v", got)
	}
}
