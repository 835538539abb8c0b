package demandscale

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"nstance.dev/e2e/env/crowd"
	"nstance.dev/e2e/env/demandcluster"
	"nstance.dev/e2e/env/kube"
	"nstance.dev/e2e/env/shards"
	"nstance.dev/e2e/perf/usage"
)

// shard is the name of the one that there is.
const shard = "a"

// roomForMany lets an API server keep 100,000 Pods and as many CapacityRequests, without collecting garbage all
// the time. It takes as much only where there are so many.
const roomForMany = "GOMEMLIMIT=11GiB"

// delay is for how long a Node is not needed before it goes.
const delay = 10 * time.Second

// world is the cluster that is measured.
type world struct {
	*demandcluster.Cluster

	t       testing.TB
	servers *shards.Cluster
}

// newWorld starts a cluster whose machines are of one type, with two processors.
func newWorld(t testing.TB, values map[string]any) *world {
	t.Helper()
	servers := shards.New(t, map[string]shards.Groups{shard: {}}, shards.Unbound, shards.UserData(crowd.UserData),
		shards.Demand(shards.Tenant, map[string]any{"instance_type": []string{"cpu:2,memory:4096"}},
			map[string]any{"scale_down_delay": delay.String(), "release_hold": "1s"}))
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- crowd.Run(ctx, servers.MachineDirs(), slog.New(slog.DiscardHandler)) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	fast := []string{"--kube-api-qps=1000", "--kube-api-burst=1000"}
	c := demandcluster.Start(t, demandcluster.Options{Shards: servers, Values: values, Kube: kube.Config{
		NodeMonitorGrace: 5 * time.Minute,
		Flags:            map[kube.Component][]string{kube.ControllerManager: fast, kube.Scheduler: fast},
		Env:              map[kube.Component][]string{kube.APIServer: {roomForMany}},
	}})
	return &world{c, t, servers}
}

// taken is what the operator and the server have taken.
type taken struct{ operator, server usage.Usage }

func (w *world) taken() taken {
	w.t.Helper()
	operator, err := usage.Of(w.Operator().PID())
	if err != nil {
		w.t.Fatal(err)
	}
	server, err := usage.Of(w.servers.PID(shard))
	if err != nil {
		w.t.Fatal(err)
	}
	return taken{operator, server}
}

// processor is how much processor time both have taken since before.
func (t taken) processor(before taken) time.Duration {
	return t.operator.Processor - before.operator.Processor + t.server.Processor - before.server.Processor
}
