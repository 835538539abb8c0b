package shards_test

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"pgregory.net/rapid"

	"nstance.dev/operator/shards"
	"nstance.dev/operator/shards/shardtest"
)

var epoch = time.Date(2026, 5, 4, 3, 2, 1, 0, time.UTC)

func TestStatus(t *testing.T) {
	type step struct {
		after time.Duration // since the start
		event shards.Event
	}
	connected := shards.Connected{Address: "h:1", Version: "v1", Term: 3}
	lost := shards.Failed{Reason: shards.ReasonUnreachable, Message: "refused"}
	at := epoch.Add
	for _, tt := range []struct {
		name  string
		steps []step
		want  shards.Status
	}{
		{"a shard that was added", nil, shards.Status{State: shards.Connecting, Since: epoch}},
		{
			"connected", []step{{time.Second, connected}},
			shards.Status{State: shards.Syncing, Since: at(time.Second), LastContact: at(time.Second), Address: "h:1", Version: "v1", Term: 3, Connections: 1},
		},
		{
			"an answer is not yet everything", []step{{1, connected}, {2, shards.Answered{}}},
			shards.Status{State: shards.Syncing, Since: at(1), LastContact: at(2), Address: "h:1", Version: "v1", Term: 3, Connections: 1},
		},
		{
			"everything listed", []step{{1, connected}, {2, shards.Synced{}}, {3, shards.Answered{}}},
			shards.Status{State: shards.Ready, Since: at(2), LastContact: at(3), Address: "h:1", Version: "v1", Term: 3, Connections: 1},
		},
		{
			"the first failure", []step{{1, connected}, {2, shards.Synced{}}, {3, lost}, {4, lost}},
			shards.Status{State: shards.Degraded, Reason: shards.ReasonUnreachable, Message: "refused", Since: at(3), LastContact: at(2), Address: "h:1", Version: "v1", Term: 3, Connections: 1},
		},
		{
			"a failure that passed", []step{{1, connected}, {2, shards.Synced{}}, {3, lost}, {4, shards.Answered{}}, {time.Minute, shards.Tick{}}},
			shards.Status{State: shards.Ready, Since: at(4), LastContact: at(4), Address: "h:1", Version: "v1", Term: 3, Connections: 1},
		},
		{
			"a failure while syncing that passed", []step{{1, connected}, {3, lost}, {4, shards.Answered{}}},
			shards.Status{State: shards.Syncing, Since: at(4), LastContact: at(4), Address: "h:1", Version: "v1", Term: 3, Connections: 1},
		},
		{
			"failures for half a minute", []step{{1, connected}, {2, shards.Synced{}}, {3, lost}, {shards.DefaultGrace + 2, shards.Tick{}}, {shards.DefaultGrace + 3, shards.Tick{}}},
			shards.Status{State: shards.Unreachable, Reason: shards.ReasonUnreachable, Message: "refused", Since: at(shards.DefaultGrace + 3), LastContact: at(2), Address: "h:1", Version: "v1", Term: 3, Connections: 1},
		},
		{
			"a late answer does not bring it back", []step{{1, connected}, {2, shards.Synced{}}, {3, lost}, {shards.DefaultGrace + 3, shards.Tick{}}, {time.Minute, shards.Answered{}}},
			shards.Status{State: shards.Unreachable, Reason: shards.ReasonUnreachable, Message: "refused", Since: at(shards.DefaultGrace + 3), LastContact: at(time.Minute), Address: "h:1", Version: "v1", Term: 3, Connections: 1},
		},
		{
			"a new connection does, and starts from nothing", []step{{1, connected}, {2, shards.Synced{}}, {2, shards.Lacks{Method: "X"}}, {3, lost}, {time.Minute, shards.Tick{}}, {time.Hour, connected}},
			shards.Status{State: shards.Syncing, Since: at(time.Hour), LastContact: at(time.Hour), Address: "h:1", Version: "v1", Term: 3, Connections: 2},
		},
		{
			"never reached", []step{{1, lost}, {shards.DefaultGrace, shards.Tick{}}},
			shards.Status{State: shards.Unreachable, Reason: shards.ReasonUnreachable, Message: "refused", Since: at(shards.DefaultGrace)},
		},
		{
			"a refusal counts at once", []step{{1, shards.Failed{Reason: shards.ReasonIdentityMismatch, Message: "other"}}},
			shards.Status{State: shards.Unreachable, Reason: shards.ReasonIdentityMismatch, Message: "other", Since: at(1)},
		},
		{
			"silence after a refusal keeps the reason", []step{{1, shards.Failed{Reason: shards.ReasonTenantUnknown, Message: "who"}}, {2, lost}, {time.Hour, shards.Tick{}}},
			shards.Status{State: shards.Unreachable, Reason: shards.ReasonTenantUnknown, Message: "refused", Since: at(1)},
		},
		{
			"a server that was configured anew", []step{{1, shards.Connected{Term: 3, ConfigDigest: "c1"}}, {2, shards.Synced{}}, {3, shards.Configured{Digest: "c2"}}},
			shards.Status{State: shards.Ready, Since: at(2), LastContact: at(2), Term: 3, Connections: 1, ConfigDigest: "c2"},
		},
		{
			"what a server lacks", []step{{1, connected}, {2, shards.Lacks{Method: "WatchErrors"}}, {3, shards.Lacks{Method: "ListInstances"}}, {4, shards.Lacks{Method: "WatchErrors"}}},
			shards.Status{State: shards.Syncing, Since: at(1), LastContact: at(1), Address: "h:1", Version: "v1", Term: 3, Connections: 1, Missing: []string{"ListInstances", "WatchErrors"}},
		},
		{
			"what it has after all", []step{{1, connected}, {2, shards.Lacks{Method: "WatchErrors"}}, {3, shards.Lacks{Method: "ListInstances"}}, {4, shards.Has{Method: "WatchErrors"}}, {5, shards.Has{Method: "WatchGroups"}}},
			shards.Status{State: shards.Syncing, Since: at(1), LastContact: at(1), Address: "h:1", Version: "v1", Term: 3, Connections: 1, Missing: []string{"ListInstances"}},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			st := shards.NewStatus(epoch, shards.DefaultGrace)
			for _, s := range tt.steps {
				st = st.Next(s.event, at(s.after))
			}
			if diff := cmp.Diff(tt.want, st, cmpopts.IgnoreUnexported(shards.Status{})); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// Whatever happens, a status that waits for time alone says for when, and that moment
// makes it unreachable.
func TestStatusIsNeverStuck(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		now := epoch
		st := shards.NewStatus(now, shards.DefaultGrace)
		events := []shards.Event{
			shards.Connected{Term: 1}, shards.Synced{}, shards.Answered{}, shards.Tick{}, shards.Lacks{Method: "X"},
			shards.Failed{Reason: shards.ReasonUnreachable}, shards.Failed{Reason: shards.ReasonAuthFailed},
		}
		for range rapid.IntRange(0, 20).Draw(t, "events") {
			now = now.Add(time.Duration(rapid.IntRange(0, 40).Draw(t, "seconds")) * time.Second)
			st = st.Next(rapid.SampledFrom(events).Draw(t, "event"), now)
		}
		due := st.Due()
		switch st.State {
		case shards.Connecting, shards.Degraded:
			if due.IsZero() || st.Next(shards.Tick{}, due).State != shards.Unreachable {
				t.Fatalf("%+v: due %v", st, due)
			}
		default:
			if !due.IsZero() {
				t.Fatalf("%+v: due %v", st, due)
			}
		}
	})
}

func TestOnlyAShardThatAnswersIsReachable(t *testing.T) {
	for state, want := range map[shards.State]bool{
		shards.Connecting: false, shards.Syncing: true, shards.Ready: true, shards.Degraded: true, shards.Unreachable: false,
	} {
		if got := (shards.Status{State: state}).Reachable(); got != want {
			t.Errorf("%s: %t", state, got)
		}
	}
}

func TestPause(t *testing.T) {
	for _, tt := range []struct {
		class    shards.Class
		failures int
		random   float64
		want     time.Duration
	}{
		{shards.Unavailable, 1, 0.5, time.Second},
		{shards.Unavailable, 2, 0.5, 1600 * time.Millisecond},
		{shards.Unavailable, 50, 0.5, 30 * time.Second},
		{shards.Unavailable, 0, 0, 800 * time.Millisecond},
		{shards.Broken, 50, 1, 36 * time.Second},
		{shards.AuthFailed, 1, 0.5, 30 * time.Second},
		{shards.TenantUnknown, 1000, 0.5, 5 * time.Minute},
		{shards.Mismatch, 7, 0.5, time.Minute},
		{shards.Exhausted, 1, 0.5, 5 * time.Second},
		{shards.Exhausted, 1, 0, 5 * time.Second},
	} {
		if got := shards.Pause(tt.class, tt.failures, tt.random); (got - tt.want).Abs() > time.Millisecond {
			t.Errorf("Pause(%s, %d, %v) = %v, want %v", tt.class, tt.failures, tt.random, got, tt.want)
		}
	}
}

func TestClassify(t *testing.T) {
	for _, tt := range []struct {
		err    error
		class  shards.Class
		reason string
	}{
		{status.Error(codes.Unavailable, ""), shards.Unavailable, ""},
		{status.Error(codes.DeadlineExceeded, ""), shards.Unavailable, ""},
		{status.Error(codes.Aborted, ""), shards.Unavailable, ""},
		{shardtest.Refusal(codes.Aborted, "ETAG_MISMATCH", ""), shards.Conflict, "ETAG_MISMATCH"},
		{shardtest.Refusal(codes.Aborted, "EDIT_LOST", ""), shards.Conflict, "EDIT_LOST"},
		{shardtest.Refusal(codes.Unauthenticated, "CERTIFICATE_EXPIRED", ""), shards.AuthFailed, "CERTIFICATE_EXPIRED"},
		{status.Error(codes.PermissionDenied, ""), shards.AuthFailed, ""},
		{shardtest.Refusal(codes.PermissionDenied, "UNKNOWN_TENANT", ""), shards.TenantUnknown, "UNKNOWN_TENANT"},
		{shardtest.Refusal(codes.PermissionDenied, "NOT_ADMINISTRATOR", ""), shards.Denied, "NOT_ADMINISTRATOR"},
		{shardtest.Refusal(codes.FailedPrecondition, "LOCKED_FIELD", ""), shards.Locked, "LOCKED_FIELD"},
		{shardtest.Refusal(codes.FailedPrecondition, "MANAGED_BY_OTHER", ""), shards.OtherManager, "MANAGED_BY_OTHER"},
		{shardtest.Refusal(codes.FailedPrecondition, "NOT_CLUSTER_LEADER", ""), shards.Elsewhere, "NOT_CLUSTER_LEADER"},
		{shardtest.Refusal(codes.FailedPrecondition, "PAUSED", ""), shards.Precondition, "PAUSED"},
		{shardtest.Refusal(codes.Unavailable, "NO_CAPACITY", ""), shards.NoRoom, "NO_CAPACITY"},
		{status.Error(codes.InvalidArgument, ""), shards.Invalid, ""},
		{status.Error(codes.NotFound, ""), shards.NotFound, ""},
		{status.Error(codes.AlreadyExists, ""), shards.Exists, ""},
		{status.Error(codes.ResourceExhausted, ""), shards.Exhausted, ""},
		{shardtest.Refusal(codes.ResourceExhausted, "QUOTA_EXCEEDED", ""), shards.OverQuota, "QUOTA_EXCEEDED"},
		{status.Error(codes.Unimplemented, ""), shards.Unimplemented, ""},
		{status.Error(codes.Internal, ""), shards.Broken, ""},
		{errors.New("plain"), shards.Broken, ""},
		{status.Error(codes.Code(99), ""), shards.Broken, ""},
	} {
		if class, reason := shards.Classify(tt.err); class != tt.class || reason != tt.reason {
			t.Errorf("%v: %s %q, want %s %q", tt.err, class, reason, tt.class, tt.reason)
		}
	}
}
