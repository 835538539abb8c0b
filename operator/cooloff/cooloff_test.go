package cooloff_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"nstance.dev/operator/cooloff"
)

func TestL8_RefusalsAreRememberedUntilTheGroupIsFilled(t *testing.T) {
	now := time.Unix(1000, 0)
	a, b := cooloff.Place{Shard: "a", Group: "web"}, cooloff.Place{Shard: "b", Group: "web"}
	var store cooloff.Store
	full := cooloff.Refusal{Quota: true, Why: "full"}
	store.Refused(a, full, now)
	want := cooloff.CoolOff{Refusals: 1, Since: now, Until: now.Add(cooloff.FirstCoolOff), Refusal: full}
	if diff := cmp.Diff(want, store.Of(a)); diff != "" {
		t.Error(diff)
	}
	if store.Of(b) != (cooloff.CoolOff{}) {
		t.Error("another shard is refused too")
	}
	store.Filled(a)
	if store.Of(a) != (cooloff.CoolOff{}) {
		t.Error("a group that is filled is still refused")
	}
}
