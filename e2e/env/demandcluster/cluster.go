package demandcluster

import (
	"context"
	"log/slog"
	"maps"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"nstance.dev/e2e/env/inplace"
	"nstance.dev/e2e/env/kube"
	"nstance.dev/e2e/env/kube/nodes"
	"nstance.dev/e2e/env/shards"
)

// Options are what a cluster is made of; Shards is required.
type Options struct {
	// Shards have a group of mode demand for the tenant: see [shards.Demand].
	Shards *shards.Cluster
	// Tenant is whose cluster it is; empty: [shards.Tenant].
	Tenant string
	// Values are those of the operator's chart, over those that every installation here has.
	Values map[string]any
	// Kube says how the control plane runs. It always has a scheduler and a controller manager.
	Kube kube.Config
	// Machine changes what a machine says as a Node; nil: nothing.
	Machine func(*nodes.Machine)
	// Prepare is called before the operator is installed; nil: it is installed at once.
	Prepare func(*Cluster)
}

// Cluster is such a cluster. Its methods belong to the goroutine of the test, unless they say
// otherwise.
type Cluster struct {
	*kube.Cluster

	Shards *shards.Cluster
	Tenant string
	Client kubernetes.Interface // the administrator's
	Custom dynamic.Interface    // the administrator's, for kinds that are defined there

	t            testing.TB
	installed    map[string]any // values of the chart
	installation *inplace.Installation
	keeper       *keeper // of the operator; nil: none was started
}

// Start starts a cluster whose operator runs. It ends with the test; if that fails, the operator
// has the word.
func Start(t testing.TB, o Options) *Cluster {
	t.Helper()
	if o.Tenant == "" {
		o.Tenant = shards.Tenant
	}
	o.Kube.Scheduler, o.Kube.ControllerManager = true, true
	c := &Cluster{Cluster: kube.Start(t, o.Kube), Shards: o.Shards, Tenant: o.Tenant, t: t}
	admin := c.Admin()
	admin.WarningHandler = rest.NoWarnings{}
	var err error
	if c.Client, err = kubernetes.NewForConfig(admin); err != nil {
		t.Fatal(err)
	}
	if c.Custom, err = dynamic.NewForConfig(admin); err != nil {
		t.Fatal(err)
	}
	c.follow(o.Machine)
	if o.Prepare != nil {
		o.Prepare(c)
	}
	c.install(o.Values)
	c.StartOperator()
	t.Cleanup(func() {
		c.KillOperator()
		if t.Failed() {
			t.Logf("nstance-operator of %s:\n%s", c.Tenant, c.Operator().Log(60))
		}
	})
	return c
}

// pause is that between two looks at which machines have joined.
const pause = 100 * time.Millisecond

// heartbeat is how often a Node says that it is there.
const heartbeat = 5 * time.Second

// follow keeps a Node for each machine that has joined this cluster, for cleanups of the test too.
func (c *Cluster) follow(change func(*nodes.Machine)) {
	c.t.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(c.t.Context()))
	ended := make(chan error, 1)
	joined := nodes.Joined(c.Shards.MachineDirs(), func(m *nodes.Machine) {
		m.Heartbeat = heartbeat
		m.Capacity = nodes.Capacity(m.Labels[corev1.LabelInstanceTypeStable])
		if change != nil {
			change(m)
		}
	})
	mine := func(ctx context.Context) ([]nodes.Machine, error) {
		all, err := joined(ctx)
		var of []nodes.Machine
		for _, m := range all {
			if m.Labels[tenantLabel] == c.Tenant {
				of = append(of, m)
			}
		}
		return of, err
	}
	go func() { ended <- nodes.Follow(ctx, c.Client, slog.New(slog.DiscardHandler), pause, mine) }()
	c.t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			c.t.Errorf("Nodes of %s: %v", c.Tenant, err)
		}
	})
}

// tenantLabel is set on each Node by the blob: of several clusters, whose it is.
const tenantLabel = "test.nstance.dev/tenant"

// merge returns values with others over them; maps are merged.
func merge(values, over map[string]any) map[string]any {
	all := maps.Clone(values)
	for key, value := range over {
		below, isMap := value.(map[string]any)
		if was, too := all[key].(map[string]any); isMap && too {
			value = merge(was, below)
		}
		all[key] = value
	}
	return all
}
