//go:build kube

package operator_test

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"nstance.dev/e2e/env/kube"
	"nstance.dev/e2e/env/kube/nodes"
	"nstance.dev/e2e/env/shards"
	nstancev1 "nstance.dev/protos/nstance/v1"
)

// system is all of it but for the cluster, which is everybody's: shards a, b and c with real
// servers, a Node for each machine of theirs, and the operator as the chart installs it, in a
// namespace of its own.
type system struct {
	*installation
	place    *place
	imported []string // instances that there were before the operator
	ground   *ground
}

// ground is where the machines of a system stand. The zero value has none yet, and there is
// power.
type ground struct {
	mu     sync.Mutex
	off    func(name string) bool // who has no power; nil: none
	other  func(*nodes.Machine)   // what Nodes say; nil: what is so
	shards map[string]string      // all that there have been, each with its shard
}

// powerOff takes the power from some machines, also from those to come, until the end of the test.
// Their Nodes fall silent, or never come; their servers notice nothing.
func (g *ground) powerOff(t *testing.T, off func(name string) bool) {
	g.set(off)
	t.Cleanup(func() { g.set(nil) })
}

func (g *ground) set(off func(string) bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.off = off
}

// overrideNodes has Nodes that come until the end of the test say something else of their machine.
func (g *ground) overrideNodes(t *testing.T, as func(*nodes.Machine)) {
	set := func(as func(*nodes.Machine)) {
		g.mu.Lock()
		defer g.mu.Unlock()
		g.other = as
	}
	set(as)
	t.Cleanup(func() { set(nil) })
}

// powered returns those machines that have power, and remembers all.
func (g *ground) powered(all []nodes.Machine) []nodes.Machine {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.shards == nil {
		g.shards = map[string]string{}
	}
	for i := range all {
		g.shards[all[i].Name] = all[i].Labels[corev1.LabelTopologyZone]
		if g.other != nil {
			all[i].Labels = maps.Clone(all[i].Labels)
			g.other(&all[i])
		}
	}
	return slices.DeleteFunc(all, func(m nodes.Machine) bool { return g.off != nil && g.off(m.Name) })
}

// shard returns that of a machine that stands here, or did; "" if none did.
func (g *ground) shard(name string) string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.shards[name]
}

// onDemandNamespace is the namespace whose Pods may have machines of their own.
func (s *system) onDemandNamespace() string { return s.place.name + "-pods" }

// startSystem gives a test that needs these abilities a system for itself, until it ends. Tests
// take turns with the few that there are, beside each other; it must come first in a test.
func startSystem(t *testing.T, abilities ...kube.Ability) *system {
	t.Helper()
	startCluster(t, abilities...)
	return common.enter(t, plain, beside)
}

// startLong is [startSystem] for a test of minutes, which begins before the others.
func startLong(t *testing.T, abilities ...kube.Ability) *system {
	t.Helper()
	startCluster(t, abilities...)
	return common.enter(t, plain, long)
}

// startKind is [startSystem] for a system of another kind than most are.
func startKind(t *testing.T, of kind, abilities ...kube.Ability) *system {
	t.Helper()
	startCluster(t, abilities...)
	return common.enter(t, of, beside)
}

// startAlone starts a system in a cluster of its own, for a test that nobody else there can
// bear. They end with it.
func startAlone(t *testing.T, abilities ...kube.Ability) *system {
	t.Helper()
	ownCluster(t, abilities...)
	p := &place{name: "nstance-operator", kind: alone}
	p.tb.TB = t
	s := p.build(t, newWhole(t))
	s.enter(t)
	kube.Await(t, "the operator is there, and so are its shards", s.connected)
	return s
}

// build starts what the system of a place consists of.
func (p *place) build(t testing.TB, cluster *core) *system {
	t.Helper()
	c := *cluster
	c.namespace = p.name
	s := &system{place: p, ground: &ground{}}
	groups := map[string]shards.Groups{"a": {}, "b": {}, "c": {}}
	if p.kind == gated {
		groups["a"], groups["b"] = shards.Groups{"web": 3}, shards.Groups{"web": 1}
	}
	servers := shards.New(t, groups, serversOf(append(p.options(), p.servers...))...)
	bootMachines(t, &c, servers, s.ground)
	for shard := range groups {
		s.imported = append(s.imported, instancesOf(t, servers, shard, groups[shard]["web"])...)
	}
	s.installation = install(t, &c, servers, shards.Tenant, s.wishes())
	return s
}

// options are what its shards do otherwise than servers usually do.
func (p *place) options() []shards.Option {
	switch p.kind {
	case alone:
		return nil
	case hosting:
		return []shards.Option{shards.Unbound, shards.NodeMachines}
	case hasty:
		return []shards.Option{shards.Unbound, shards.DrainTimeout(50 * time.Second)}
	default:
		// Who removes a pool shall not wait for the minute to be over, and fifty drains at once on a busy box
		// shall not be cut short.
		return []shards.Option{shards.Unbound, shards.DrainTimeout(kube.Patience)}
	}
}

// wishes are values of the chart besides those that every installation needs.
func (s *system) wishes() map[string]any {
	asking, unlimited := []any{s.onDemandNamespace()}, 0
	if s.place.kind == gated {
		return map[string]any{"onDemand": map[string]any{"linger": lingers.String(), "namespaces": asking, "maxPerNamespace": unlimited}}
	}
	return map[string]any{
		"hosts": map[string]any{"enabled": s.place.kind == hosting},
		"crds":  map[string]any{"install": false}, "webhook": map[string]any{"enabled": false},
		"onDemand":          map[string]any{"mode": "annotate", "provisionTimeout": "1m", "linger": "5s", "namespaces": asking, "maxPerNamespace": unlimited},
		"clusterAutoscaler": map[string]any{"rbac": map[string]any{"create": true}},
		"extraArgs":         []any{"--shard-unreachable-grace=10s,10s"},
	}
}

// instancesOf returns the instances of a shard once there are that many.
func instancesOf(t testing.TB, s *shards.Cluster, shard string, size int) []string {
	t.Helper()
	var ids []string
	kube.Await(t, "the server of "+shard+" has its instances", func(ctx context.Context) error {
		ids = nil
		instances, _, err := s.Instances(ctx, shard)
		if err != nil {
			return err
		}
		for _, in := range instances {
			ids = append(ids, in.GetInstanceId())
		}
		if len(ids) != size {
			return fmt.Errorf("%d instances, want %d", len(ids), size)
		}
		return nil
	})
	return ids
}

// heartbeat is how often a Node says that it is there: often enough that it is not missed when
// the box is busy.
const heartbeat = 8 * time.Second

// bootMachines keeps a Node for each machine of the shards that has power.
func bootMachines(t testing.TB, c *core, s *shards.Cluster, on *ground) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	log := slog.New(slog.DiscardHandler) // they have nothing to say that their Nodes do not show
	go func() { ended <- nodes.Follow(ctx, c.client, log, 500*time.Millisecond, machinesOf(s, on)) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("machines: %v", err)
		}
	})
}

// addressesOf are those that a Node has of its machine.
func addressesOf(in *nstancev1.InstanceStatus) []corev1.NodeAddress {
	var all []corev1.NodeAddress
	for _, address := range in.GetAddresses() {
		all = append(all, corev1.NodeAddress{Type: corev1.NodeInternalIP, Address: address})
	}
	return all
}

// machinesOf returns what lists the machines of all shards. A shard that does not answer, or
// does not know yet, has those that it had.
func machinesOf(s *shards.Cluster, on *ground) func(context.Context) ([]nodes.Machine, error) {
	known := map[string][]nodes.Machine{}
	return func(ctx context.Context) ([]nodes.Machine, error) {
		var all []nodes.Machine
		for _, shard := range s.Shards() {
			instances, complete, err := s.Instances(ctx, shard)
			if err == nil && complete {
				known[shard] = nil
				for _, in := range instances {
					if in.GetRegisteredAt() != nil {
						known[shard] = append(known[shard], nodes.Machine{
							Name: in.GetInstanceId(), ProviderID: in.GetProviderUri(), Addresses: addressesOf(in),
							Labels: map[string]string{corev1.LabelTopologyZone: shard}, Heartbeat: heartbeat,
						})
					}
				}
			}
			all = append(all, known[shard]...)
		}
		return on.powered(all), nil
	}
}
