//go:build kube

package operator_test

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"nstance.dev/e2e/kube"
	"nstance.dev/e2e/kube/nodes"
	"nstance.dev/e2e/shards"
)

// system is all of it: a cluster with Cluster API, shards a, b and c with real servers, a
// Node for each machine of theirs, and the operator as the chart installs it.
type system struct {
	*installation
	imported []string // instances that there were before the operator
	power    *power
}

// power says which machines have it. The zero value: all of them.
type power struct {
	mu  sync.Mutex
	off func(name string) bool // nil: none
}

// cut takes the power from some machines, also from those to come, until the end of the test.
// Their Nodes fall silent, or never come; their servers notice nothing.
func (p *power) cut(t *testing.T, off func(name string) bool) {
	p.set(off)
	t.Cleanup(func() { p.set(nil) })
}

func (p *power) set(off func(string) bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.off = off
}

func (p *power) has(name string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.off == nil || !p.off(name)
}

// theSystem is the one that the tests share; nil before the first of them.
var theSystem *system

// startSystem returns the system. It is started for the first test that needs it and ends
// with the last one; tests have pools of their own in it.
func startSystem(t *testing.T) *system {
	t.Helper()
	shared.TB = t
	if theSystem == nil {
		s := shards.New(&shared, map[string]shards.Groups{"a": {"web": 3}, "b": {"web": 1}, "c": {}})
		c := newCore(&shared, "nstance-operator", kube.Config{Scheduler: true, NodeMonitorGrace: 20 * time.Second})
		on := &power{}
		bootMachines(&shared, c, s, on)
		before := instancesOf(t, s, 4)
		theSystem = &system{imported: before, power: on, installation: install(&shared, c, s, shards.Tenant, map[string]any{
			"webhook":           map[string]any{"port": 443}, // of its Service: see package kube
			"clusterAutoscaler": map[string]any{"rbac": map[string]any{"create": true}},
		})}
	}
	theSystem.enter(t)
	kube.Await(t, "the operator is there, and so are its shards", theSystem.connected)
	return theSystem
}

// instancesOf returns the instances of all shards in order, once there are that many.
func instancesOf(t *testing.T, s *shards.Cluster, size int) []string {
	t.Helper()
	var ids []string
	kube.Await(t, "the servers have their instances", func(ctx context.Context) error {
		ids = nil
		for _, shard := range s.Shards() {
			instances, _, err := s.Instances(ctx, shard)
			if err != nil {
				return err
			}
			for _, in := range instances {
				ids = append(ids, in.GetInstanceId())
			}
		}
		if len(ids) != size {
			return fmt.Errorf("%d instances, want %d", len(ids), size)
		}
		return nil
	})
	slices.Sort(ids)
	return ids
}

// bootMachines keeps a Node for each machine of the shards that has power.
func bootMachines(t testing.TB, c *core, s *shards.Cluster, on *power) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	log := slog.New(slog.DiscardHandler) // they have nothing to say that their Nodes do not show
	go func() { ended <- nodes.Follow(ctx, c.client, log, 200*time.Millisecond, machinesOf(s, on)) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("machines: %v", err)
		}
	})
}

// machinesOf returns what lists the machines of all shards. A shard that does not answer, or
// does not know yet, has those that it had.
func machinesOf(s *shards.Cluster, on *power) func(context.Context) ([]nodes.Machine, error) {
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
							Name: in.GetInstanceId(), ProviderID: in.GetProviderUri(),
							Labels: map[string]string{corev1.LabelTopologyZone: shard}, Heartbeat: 2 * time.Second,
						})
					}
				}
			}
			all = append(all, known[shard]...)
		}
		return slices.DeleteFunc(all, func(m nodes.Machine) bool { return !on.has(m.Name) }), nil
	}
}
