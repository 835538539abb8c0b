//go:build kube

package operator_test

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"nstance.dev/e2e/env/kube"
	infrav1 "nstance.dev/operator/api/infrastructure/v1beta1"
)

// O16: what is asked of a paused cluster waits until it goes on.
func TestO16_APausedClusterWaits(t *testing.T) {
	s := startSystem(t)
	s.pool(t, "paused", "shards: [a]", 1)
	s.merge(t, "Cluster", s.cluster(), `{"spec":{"paused":true}}`)
	goOn := func() { s.merge(&s.place.tb, "Cluster", s.cluster(), `{"spec":{"paused":false}}`) }
	t.Cleanup(goOn) // a pool that is paused cannot end
	kube.Await(t, "the pool says that it is paused", func(ctx context.Context) error {
		pool, err := s.get(ctx, infrav1.KindMachinePool, "paused")
		if err == nil && conditionOf(pool, "Paused") != "True" {
			err = errors.New("it does not")
		}
		return err
	})
	s.scale(t, "paused", 2)
	// A new process looks at every pool, this one among them.
	leader := s.leader(t)
	s.crash(t)
	s.succeed(t, leader)
	kube.Await(t, "it has looked at all pools", func(ctx context.Context) error {
		pools, err := s.list(ctx, infrav1.KindMachinePool)
		if looks := s.looks(t, "pool"); err == nil && looks < len(pools) {
			err = fmt.Errorf("it has looked %d times, and there are %d pools", looks, len(pools))
		}
		return err
	})
	if sizes := s.sizes(t, "paused"); !cmp.Equal(sizes, map[string]int64{"a": 1}) {
		t.Errorf("in a paused cluster sizes are %v", sizes)
	}
	goOn()
	kube.Await(t, "it goes on", s.settled("paused", 2))
}

// looks returns how often one of the operator's controllers has looked at an object.
func (s *system) looks(t *testing.T, controller string) int {
	t.Helper()
	total := 0
	for line := range strings.Lines(s.metrics(t)) {
		if rest, is := strings.CutPrefix(line, fmt.Sprintf("controller_runtime_reconcile_total{controller=%q,", controller)); is {
			n, err := strconv.Atoi(strings.TrimSpace(rest[strings.LastIndex(rest, " "):]))
			if err != nil {
				t.Fatal(err)
			}
			total += n
		}
	}
	return total
}

// O2: two shards whose addresses are mixed up are noticed, and neither gets what is meant for
// the other. An address that is put right is taken without a restart.
func TestO2_MixedUpAddressesAreNoticed(t *testing.T) {
	s := startSystem(t)
	s.pool(t, "mixed", "shards: [a, b], rebalance: Never", 2)
	before := s.groups(t, "mixed")
	s.address(t, map[string]string{"a": s.shards.OperatorAddr("b"), "b": s.shards.OperatorAddr("a"), "c": s.shards.OperatorAddr("c")})
	right := map[string]string{}
	for _, shard := range s.shards.Shards() {
		right[shard] = s.shards.OperatorAddr(shard)
	}
	t.Cleanup(func() { s.address(&s.place.tb, right) })
	for _, shard := range []string{"a", "b"} {
		kube.Await(t, "shard "+shard+" is not reached", s.reachable("mixed", shard, "False"))
	}
	kube.Await(t, "it is said", s.event(s.cluster(), "ShardIdentityMismatch", "another server"))
	if diff := cmp.Diff(before, s.groups(t, "mixed")); diff != "" {
		t.Errorf("groups of the servers (-before +after):\n%s", diff)
	}
	s.address(t, right)
	for _, shard := range []string{"a", "b"} {
		kube.Await(t, "shard "+shard+" is reached again", s.reachable("mixed", shard, "True"))
	}
}

// address changes the addresses that the operator knows, as an administrator does.
func (s *system) address(t testing.TB, addresses map[string]string) {
	t.Helper()
	text := ""
	for shard, address := range addresses {
		text += fmt.Sprintf("%s: {operator_addr: %q, registration_addr: %q}\n", shard, address, s.shards.RegistrationAddr(shard))
	}
	apply(t, s.Cluster, objects(t, fmt.Sprintf(`{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "nstance-shards", "namespace": %q}, "data": {"shards.yaml": %q}}`, s.namespace, text))...)
}

// groups returns the sizes that the servers have of a group, by shard.
func (s *system) groups(t *testing.T, key string) map[string]int32 {
	t.Helper()
	sizes := map[string]int32{}
	for _, shard := range s.shards.Shards() {
		all, err := s.shards.Groups(t.Context(), shard)
		if err != nil {
			t.Fatal(err)
		}
		for _, group := range all {
			if group.GetKey() == key {
				sizes[shard] = group.GetSize()
			}
		}
	}
	return sizes
}
