//go:build kube

package stories_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"nstance.dev/e2e/env/demandcluster"
	"nstance.dev/e2e/env/kube"
	"nstance.dev/e2e/env/shards"
	hostsv1 "nstance.dev/operator/api/hosts/v1alpha1"
)

// newHostWorld starts a world whose machines are hosts, on which nodes run in node machines: one is always warm, and what was bound
// stays idle for a while.
func newHostWorld(t *testing.T) *world {
	t.Helper()
	demand := map[string]any{"min_idle": 1, "release_hold": "10m", "join_deadline": joinDeadline.String()}
	servers := shards.New(t, map[string]shards.Groups{"a": {}}, shards.Unbound, shards.NodeMachines, shards.Demand(shards.Tenant, nil, demand))
	return &world{demandcluster.Start(t, demandcluster.Options{Shards: servers, Values: map[string]any{
		"hosts": map[string]any{"enabled": true}, "log": map[string]any{"level": "debug"}, // which says of what is left as it is
	}}), servers, &demandcluster.Usage{}}
}

// joinDeadline is how long machines have to join, which those that wait for a configuration may take longer.
const joinDeadline = 30 * time.Second

// M3: in a demand group a machine that is warm and serves nobody has no HostMachine. When a need binds it, it has one, which
// says what it waits for; when that is no longer needed, the HostMachine goes and the machine stays.
func TestM3_HostMachinesOfADemandGroup(t *testing.T) {
	t.Parallel()
	w := newHostWorld(t)
	t.Run("hosts", func(t *testing.T) {
		s := w.begin(t, "hosts")
		t.Cleanup(s.clear)
		warm := s.awaitBindings("a machine is warm", 0)[0]
		s.awaitLeft(warm)
		s.wantHosts()

		s.deploy(1, pod("web", "900m"))
		s.awaitHosts("the machine is bound, and has a HostMachine", warm)
		next := s.awaitBindings("another machine is warm", 1)[0]
		s.awaitLeft(next)
		m := s.wantHosts(warm)[0]
		pending := meta.FindStatusCondition(m.Status.Conditions, hostsv1.ConditionConfigurationPending)
		if pending == nil || pending.Status != metav1.ConditionTrue || pending.Reason != hostsv1.ReasonNoMatch {
			t.Errorf("%s waits for %+v", m.Name, pending)
		}

		s.scale("web", 0)
		s.awaitHosts("the binding has ended, and the HostMachine with it")
		if idle := s.awaitBindings("both machines are warm", 0); !slices.Contains(idle, warm) || !slices.Contains(idle, next) {
			t.Errorf("warm are %v, want %s and %s", idle, warm, next)
		}
		s.scale("web", 1)
		kube.Await(t, "one of them is bound again", func(ctx context.Context) error {
			all, err := s.hosts(ctx)
			if err == nil && len(all) != 1 {
				err = fmt.Errorf("%d HostMachines", len(all))
			}
			return err
		})
	})
}

// bindings returns the bindings of the machines that have registered, by their ids.
func (s *teller) bindings(ctx context.Context) (map[string]string, error) {
	instances, complete, err := s.servers.Instances(ctx, "a")
	if err == nil && !complete {
		err = errors.New("the shard does not know all its machines yet")
	}
	all := map[string]string{}
	for _, in := range instances {
		if in.GetRegisteredAt() != nil {
			all[in.GetInstanceId()] = in.GetMachine().GetBinding()
		}
	}
	return all, err
}

// awaitBindings waits until a machine serves nobody, and this many are bound, and returns those that serve nobody.
func (s *teller) awaitBindings(what string, bound int) (idle []string) {
	s.t.Helper()
	kube.Await(s.t, what, func(ctx context.Context) error {
		idle = nil
		all, err := s.bindings(ctx)
		for id, binding := range all {
			if binding == "idle" {
				idle = append(idle, id)
			}
		}
		if err == nil && (len(idle) == 0 || len(all)-len(idle) != bound) {
			err = fmt.Errorf("machines %v", all)
		}
		return err
	})
	return idle
}

// awaitLeft waits until the operator has seen a machine that serves nobody, and has left it as it is.
func (s *teller) awaitLeft(id string) {
	s.t.Helper()
	kube.Await(s.t, "the operator knows of "+id+" that it serves nobody", func(context.Context) error {
		for line := range strings.Lines(s.Operator().Log(1_000_000)) {
			if strings.Contains(line, "machine="+id) && strings.Contains(line, "the instance serves no cluster") {
				return nil
			}
		}
		return errors.New("it does not say so")
	})
}

// hosts returns the HostMachines, in the order of their names.
func (s *teller) hosts(ctx context.Context) ([]*hostsv1.HostMachine, error) {
	list, err := s.Custom.Resource(hostsv1.GroupVersion.WithResource("hostmachines")).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	var all []*hostsv1.HostMachine
	for _, object := range list.Items {
		m := &hostsv1.HostMachine{}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, m); err != nil {
			return nil, err
		}
		all = append(all, m)
	}
	return all, nil
}

// awaitHosts waits until these machines have HostMachines that say what they wait for, and no other has one.
func (s *teller) awaitHosts(what string, names ...string) {
	s.t.Helper()
	kube.Await(s.t, what, func(ctx context.Context) error {
		all, err := s.hosts(ctx)
		if err != nil {
			return err
		}
		var are []string
		for _, m := range all {
			if len(m.Status.Conditions) > 0 && meta.FindStatusCondition(m.Status.Conditions, hostsv1.ConditionConfigurationPending) != nil {
				are = append(are, m.Name)
			}
		}
		if !slices.Equal(are, names) || len(all) != len(names) {
			return fmt.Errorf("%d HostMachines, of which %v say what they wait for", len(all), are)
		}
		return nil
	})
}

// wantHosts checks that these machines have HostMachines, and no other has one.
func (s *teller) wantHosts(names ...string) []*hostsv1.HostMachine {
	s.t.Helper()
	all, err := s.hosts(s.t.Context())
	if err != nil {
		s.t.Fatal(err)
	}
	var are []string
	for _, m := range all {
		are = append(are, m.Name)
	}
	if diff := cmp.Diff(names, are); diff != "" {
		s.t.Fatalf("HostMachines (-want +got):\n%s", diff)
	}
	return all
}
