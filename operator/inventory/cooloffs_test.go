package inventory_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"nstance.dev/operator/inventory"
)

func TestL8_RefusalsAreRememberedUntilTheGroupIsFilled(t *testing.T) {
	now := time.Unix(1000, 0)
	a, b := inventory.ShardGroup{Shard: "a", Group: "web"}, inventory.ShardGroup{Shard: "b", Group: "web"}
	var store inventory.CoolOffs
	full := inventory.Refusal{Quota: true, Why: "full"}
	store.Refused(a, full, now)
	want := inventory.CoolOff{Refusals: 1, Since: now, Until: now.Add(inventory.FirstCoolOff), Refusal: full}
	if diff := cmp.Diff(want, store.Of(a)); diff != "" {
		t.Error(diff)
	}
	if store.Of(b) != (inventory.CoolOff{}) {
		t.Error("another shard is refused too")
	}
	store.Filled(a)
	if store.Of(a) != (inventory.CoolOff{}) {
		t.Error("a group that is filled is still refused")
	}
}
