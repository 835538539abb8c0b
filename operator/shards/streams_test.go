package shards_test

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"

	"nstance.dev/operator/shards"
	"nstance.dev/operator/shards/shardtest"
)

func TestAStreamThatWasTooSlowIsOpenedAtOnceOnce(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.apply(at("a", "a:1"))
		slow := shardtest.Refusal(codes.ResourceExhausted, "WATCHER_TOO_SLOW", "the watcher does not read")
		w.Shard("a").Break(shardtest.Faults{Refuse: map[string]error{"WatchErrors": slow}})
		w.Shard("a").EndStreams()
		w.after(4 * time.Second) // a second until the session after
		got := w.restarted()
		others := slices.DeleteFunc(slices.Clone(got), func(s string) bool { return s == "WatchErrors exhausted" })
		if len(got)-len(others) != 2 {
			t.Errorf("ended: %v", got)
		}
		w.expect("a", shards.Ready, "")
		w.Shard("a").Break(shardtest.Faults{})
		w.after(10 * time.Second)
		if n := w.Shard("a").Streams(); n != 3 {
			t.Errorf("%d streams, want 3", n)
		}
	})
}

func TestAStreamThatEndsAloneIsNoLostShard(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.Shard("a").Break(shardtest.Faults{Refuse: map[string]error{"WatchErrors": shardtest.Refusal(codes.Internal, "INTERNAL", "panic")}})
		w.apply(at("a", "a:1"))
		w.after(10 * time.Second)
		w.expect("a", shards.Ready, "")
		if got := w.restarted(); len(got) < 3 || got[0] != "WatchErrors broken" {
			t.Errorf("ended: %v", got)
		}
	})
}

func TestASilentStreamIsOpenedAnew(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.apply(at("a", "a:1"))
		w.after(20 * time.Second)
		w.Shard("a").Break(shardtest.Faults{Silent: true})
		w.after(38 * time.Second) // 45s after the last heartbeat are not over
		if got := w.restarted(); got != nil {
			t.Errorf("ended too early: %v", got)
		}
		w.after(10 * time.Second)
		if got := w.restarted(); !slices.Equal(got, []string{"WatchInstances silent"}) {
			t.Errorf("ended: %v", got)
		}
		w.Shard("a").Break(shardtest.Faults{})
		w.after(50 * time.Second) // the stream that began silent ends too
		w.Shard("a").AddGroup(tenant, shardtest.Group{Key: "web", Size: 1})
		synctest.Wait()
		if got := w.statuses(); !slices.Contains(got, "running") {
			t.Errorf("events %v", got)
		}
	})
}

func TestAServerWithoutHeartbeatsMayBeSilent(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.Shard("a").Break(shardtest.Faults{NoHeartbeats: true})
		w.apply(at("a", "a:1"))
		w.after(10 * time.Minute)
		if got := w.restarted(); got != nil {
			t.Errorf("streams ended: %v", got)
		}
	})
}

func TestWhatAServerLacksIsRemembered(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.Shard("a").Break(shardtest.Faults{Lacks: map[string]bool{"ListInstances": true, "WatchErrors": true, "GetServerInfo": true}})
		w.apply(at("a", "a:1"))
		w.after(10 * time.Second)
		w.expect("a", shards.Ready, "")
		if got := w.shard("a").Status().Missing; !slices.Equal(got, []string{"GetServerInfo", "ListInstances", "WatchErrors"}) {
			t.Errorf("missing %v", got)
		}
		w.Shard("a").Break(shardtest.Faults{})
		w.Shard("a").EndStreams()
		w.after(5 * time.Second)
		if got := w.shard("a").Status().Missing; got != nil {
			t.Errorf("after a new connection: missing %v", got)
		}
	})
}

func TestAnAbilityThatIsNotNamedIsMissing(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.Shard("a").Break(shardtest.Faults{Lacks: map[string]bool{"decrement-size": true}})
		w.apply(at("a", "a:1"))
		w.after(10 * time.Second)
		w.expect("a", shards.Ready, "")
		if got := w.shard("a").Status().Missing; !slices.Equal(got, []string{"decrement-size"}) {
			t.Errorf("missing %v", got)
		}
	})
}

// TestAStreamThatIsRefusedIsMissed: the shard answers, and yet nobody hears of its drains.
func TestAStreamThatIsRefusedIsMissed(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		denied := shardtest.Refusal(codes.PermissionDenied, "NOT_ADMINISTRATOR", "not for you")
		w.Shard("a").Break(shardtest.Faults{Refuse: map[string]error{"WatchInstances": denied}})
		w.apply(at("a", "a:1"))
		w.after(time.Minute)
		w.expect("a", shards.Ready, "")
		if got := w.shard("a").Status().Missing; !slices.Equal(got, []string{"WatchInstances"}) {
			t.Errorf("missing %v", got)
		}
		w.Shard("a").Break(shardtest.Faults{})
		w.after(10 * time.Minute)
		if got := w.shard("a").Status().Missing; len(got) != 0 {
			t.Errorf("when it is served again: missing %v", got)
		}
	})
}

func TestRefusalsOfUsAreNoSilence(t *testing.T) {
	for _, tt := range []struct {
		name string
		err  error
		want shards.Reason
		// certificate: it is ours that is refused, and another one may be let in
		certificate bool
	}{
		{"tenant", shardtest.Refusal(codes.PermissionDenied, "UNKNOWN_TENANT", "the tenant is not configured"), shards.ReasonTenantUnknown, false},
		{"operator", shardtest.Refusal(codes.PermissionDenied, "UNKNOWN_OPERATOR", "unknown"), shards.ReasonAuthFailed, true},
		{"certificate", shardtest.Refusal(codes.Unauthenticated, "CERTIFICATE_EXPIRED", "expired"), shards.ReasonAuthFailed, true},
		{"no reason", shardtest.Refusal(codes.PermissionDenied, "", "not for you"), shards.ReasonAuthFailed, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				w.apply(at("a", "a:1"))
				w.Shard("a").Break(shardtest.Faults{Refuse: map[string]error{"": tt.err}})
				w.after(time.Minute)
				w.expect("a", shards.Unreachable, tt.want)
				if got := w.shard("a").Status().Refused; got != tt.certificate {
					t.Errorf("the certificate is refused: %t, want %t", got, tt.certificate)
				}
				asked := w.Shard("a").Count("GetServerInfo")
				w.after(30 * time.Minute)
				if n := w.Shard("a").Count("GetServerInfo") - asked; n > 10 {
					t.Errorf("asked %d times in half an hour", n)
				}
				w.Shard("a").Break(shardtest.Faults{})
				w.after(6 * time.Minute)
				w.expect("a", shards.Ready, "")
				if w.shard("a").Status().Refused {
					t.Error("the certificate is said to be refused by a shard that is ready")
				}
			})
		})
	}
}

func TestAStreamThatIsRefusedIsAskedForRarely(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.Shard("a").Break(shardtest.Faults{Refuse: map[string]error{"WatchInstances": shardtest.Refusal(codes.PermissionDenied, "UNKNOWN_OPERATOR", "unknown")}})
		w.apply(at("a", "a:1"))
		w.after(10 * time.Minute)
		w.expect("a", shards.Unreachable, shards.ReasonAuthFailed)
		if n := w.Shard("a").Count("GetServerInfo"); n > 7 {
			t.Errorf("connected %d times in ten minutes", n)
		}
	})
}

// Each stream has a sink of its own, and one that nobody asks for is not opened.
func TestOnlyTheStreamsOfTheOptionsAreOpened(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.Shard("a").AddGroup(tenant, shardtest.Group{Key: "web", Size: 1})
		groups, instances, states := newSink(), newSink(), newSink()
		set := shards.NewSet(shards.Options{
			Cluster: w.ID, Tenant: tenant, Credentials: w.Operator(tenant), Dial: w.DialContext,
			Sink: states, Streams: []shards.Stream{shards.WatchGroups(groups), shards.WatchInstances(instances)},
		})
		set.Apply([]shards.Target{at("a", "a:1")})
		ctx, stop := context.WithTimeout(t.Context(), time.Minute)
		defer stop()
		_ = set.Run(ctx)
		if n := w.Shard("a").Count("WatchErrors"); n != 0 {
			t.Errorf("the stream of errors was opened %d times", n)
		}
		if got, want := states.path("a"), []shards.State{shards.Syncing, shards.Ready}; !slices.Equal(got, want) {
			t.Errorf("went through %v, want %v", got, want)
		}
		if len(groups.groups) != 1 || len(groups.instances) != 0 || len(groups.events) != 0 {
			t.Errorf("the sink of groups received %+v", groups)
		}
		if len(instances.instances) != 1 || len(instances.groups) != 0 || len(instances.changes) != 0 {
			t.Errorf("the sink of instances received %+v", instances)
		}
		if len(states.groups)+len(states.instances)+len(states.events)+len(states.changes) != 0 {
			t.Errorf("the sink of connections received %+v", states)
		}
	})
}
