//go:build kube

package operator_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"nstance.dev/e2e/env/kube"
	"nstance.dev/e2e/env/shards"
	infrav1 "nstance.dev/operator/api/infrastructure/v1beta1"
)

// O5: a group of a server's configuration becomes a pool and is scaled through it; what its
// configuration says is locked. When it leaves the configuration, the pool takes over what
// the server used, and no machine is replaced.
func TestO5_AStaticGroupFromItsConfigurationToItsPool(t *testing.T) {
	s := startSystem(t)
	s.reconfigure(t, "a", shards.Groups{"fixed": 2})
	t.Cleanup(func() { s.shards.Configure("a", nil) })
	kube.Await(t, "it is imported", s.settled("fixed", 2))
	kube.Await(t, "it is static", s.fixed("fixed", true, ""))

	s.scale(t, "fixed", 3)
	kube.Await(t, "three Machines run", s.settled("fixed", 3))
	if got := s.groups(t, "fixed"); !cmp.Equal(got, map[string]int32{"a": 3}) {
		t.Errorf("the servers have sizes %v", got)
	}
	before := s.names(t, "fixed")

	_, err := s.resource(infrav1.KindMachinePool).Patch(t.Context(), "fixed", types.MergePatchType,
		[]byte(`{"spec":{"template":"another"}}`), metav1.PatchOptions{})
	if err == nil || !strings.Contains(err.Error(), "spec.template is locked") {
		t.Errorf("another template: %v", err)
	}
	s.reconfigure(t, "a", nil)
	kube.Await(t, "the pool has what the server used", s.fixed("fixed", false, shards.Template))
	kube.Await(t, "three Machines run", s.settled("fixed", 3))
	if diff := cmp.Diff(before, s.names(t, "fixed")); diff != "" {
		t.Errorf("machines were replaced (-before +after):\n%s", diff)
	}
	s.scale(t, "fixed", 0)
	kube.Await(t, "none is left", s.settled("fixed", 0))
}

// reconfigure starts the server of a shard anew with other groups in its configuration.
func (s *system) reconfigure(t *testing.T, shard string, groups shards.Groups) {
	t.Helper()
	s.shards.Stop(shard)
	s.shards.Configure(shard, groups)
	s.shards.Start(shard)
}

// fixed returns nil once a pool is static or is not, and has that template.
func (s *system) fixed(name string, static bool, template string) func(context.Context) error {
	return func(ctx context.Context) error {
		var pool infrav1.NstanceMachinePool
		if err := s.read(ctx, infrav1.KindMachinePool, name, &pool); err != nil {
			return err
		}
		if pool.Status.IsStatic != static || pool.Spec.Template != template {
			return fmt.Errorf("static %v, template %q", pool.Status.IsStatic, pool.Spec.Template)
		}
		return nil
	}
}
