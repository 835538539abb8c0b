package cli_test

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/timestamppb"

	"nstance.dev/admin/shardclient/shardtest"
	nstancev1 "nstance.dev/protos/nstance/v1"
)

// lateDecider is a shard that decides something after it was asked for its decisions, and before its stream of
// instances begins.
type lateDecider struct {
	*shardtest.Shard

	mu      sync.Mutex
	decided bool
}

// Explain implements the operator API.
func (s *lateDecider) Explain(ctx context.Context, r *nstancev1.ExplainRequest) (*nstancev1.ExplainResponse, error) {
	why, err := s.Shard.Explain(ctx, r)
	s.mu.Lock()
	defer s.mu.Unlock()
	if err == nil && s.decided {
		late := &nstancev1.Decision{Time: timestamppb.New(shardtest.Epoch.Add(49 * time.Hour)), Action: "condemn", Reason: "unhealthy"}
		why.Decisions = append([]*nstancev1.Decision{late}, why.Decisions...)
	}
	return why, err
}

// WatchInstances implements the operator API.
func (s *lateDecider) WatchInstances(r *nstancev1.WatchInstancesRequest, stream grpc.ServerStreamingServer[nstancev1.InstanceEvent]) error {
	s.mu.Lock()
	s.decided = true
	s.mu.Unlock()
	return s.Shard.WatchInstances(r, stream)
}

// What is decided between the listing and the stream is printed, and nothing twice.
func TestEventsOfThePastHaveNoGap(t *testing.T) {
	c := newConsole(t)
	c.env["NSTANCE_ADMIN_SERVERS"] = "local=" + c.cluster.Listen(t, "local", &lateDecider{Shard: c.local})
	w := c.watch(t, "events", "--since", "24h", "--for", "group/web")
	w.await(t, 4) // two decisions, the group, and the late decision
	w.stop(t)
	printed := c.out.String()
	if strings.Count(printed, "  decision  ") != 3 || strings.Count(printed, "2026-05-06T04:02:01Z  decision  web  condemn: unhealthy\n") != 1 {
		t.Errorf("it printed\n%s", printed)
	}
}
