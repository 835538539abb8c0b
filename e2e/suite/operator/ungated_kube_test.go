//go:build kube

package operator_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"nstance.dev/e2e/env/kube"
	infrav1 "nstance.dev/operator/api/infrastructure/v1beta1"
)

// held is a Pod that asks for a machine, and that a gate of its own keeps from the scheduler.
// It has the name of the group.
const held = `
apiVersion: v1
kind: Pod
metadata: {name: GROUP, namespace: NAMESPACE, annotations: {on-demand.nstance.dev/group: GROUP}}
spec:
  terminationGracePeriodSeconds: 1
  schedulingGates: [{name: test.nstance.dev/held}]
  containers: [{name: work, image: none}]
`

// O12: where no webhook ties Pod and Node, a Pod that asked for a machine and landed on another
// one keeps running there, and the machine that nobody needs goes.
func TestO12_AMachineThatItsPodDoesNotUseGoes(t *testing.T) {
	s := startSystem(t)
	s.pool(t, "loose", "shards: [a]", 1)
	other := s.names(t, "loose")[0]
	s.holdPod(t, "loose")
	kube.Await(t, "its machine is there", s.phase("loose", infrav1.OnDemandJoined))
	s.patchPod(t, "loose", fmt.Sprintf(`{"spec":{"schedulingGates":null,"nodeSelector":{"kubernetes.io/hostname":%q}}}`, other))
	kube.Await(t, "it runs elsewhere", func(ctx context.Context) error {
		running, err := s.runningPods(ctx, s.onDemandNamespace())
		if err == nil && running["loose"] != other {
			err = fmt.Errorf("there run %v", running)
		}
		return err
	})
	kube.Await(t, "the machine goes", s.unused)
	kube.Await(t, "it is said", s.podEvent("loose", "OnDemandUnused"))
	if running, err := s.runningPods(t.Context(), s.onDemandNamespace()); err != nil || running["loose"] != other {
		t.Errorf("there run %v (%v)", running, err)
	}
}

// holdPod makes a Pod that is held, and that asks for a machine of the group of its name. At
// the end of the test it is deleted, and its machines are waited for.
func (s *system) holdPod(t *testing.T, name string) {
	t.Helper()
	s.lonely(t, name, held)
	t.Cleanup(func() {
		tb := &s.place.tb // it is the end of the test
		if err := s.client.CoreV1().Pods(s.onDemandNamespace()).Delete(tb.Context(), name, metav1.DeleteOptions{}); err != nil {
			t.Error(err)
		}
		kube.Await(tb, "the machines of the Pod are gone", s.unused)
	})
}

// patchPod changes a Pod by a merge patch.
func (s *system) patchPod(t *testing.T, name, patch string) {
	t.Helper()
	_, err := s.client.CoreV1().Pods(s.onDemandNamespace()).Patch(t.Context(), name, types.StrategicMergePatchType, []byte(patch), metav1.PatchOptions{})
	if err != nil {
		t.Fatal(err)
	}
}

// phase returns nil once the operator says of a Pod how far its machine is.
func (s *system) phase(name string, want infrav1.OnDemandPhase) func(context.Context) error {
	return func(ctx context.Context) error {
		pod, err := s.client.CoreV1().Pods(s.onDemandNamespace()).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if is := pod.Annotations[infrav1.OnDemandState]; is != string(want) {
			return fmt.Errorf("it is %q: %s", is, pod.Annotations[infrav1.OnDemandMessage])
		}
		return nil
	}
}

// tried returns nil once that many machines have been made for a Pod.
func (s *system) tried(name string, times int) func(context.Context) error {
	return func(ctx context.Context) error {
		pod, err := s.client.CoreV1().Pods(s.onDemandNamespace()).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if tries := pod.Annotations[infrav1.OnDemandTries]; strings.Count(tries, "@") < times {
			return fmt.Errorf("it is %q", tries)
		}
		return nil
	}
}

// unused returns nil once there is no machine for a Pod.
func (s *system) unused(ctx context.Context) error {
	all, err := s.list(ctx, infrav1.KindMachine)
	if err != nil {
		return err
	}
	for _, m := range all {
		if m.GetLabels()[infrav1.LabelOnDemandPodUID] != "" {
			return fmt.Errorf("%s is there", m.GetName())
		}
	}
	return nil
}

// podEvent returns nil once there is an event about a Pod.
func (s *system) podEvent(name, reason string) func(context.Context) error {
	return func(ctx context.Context) error {
		all, err := s.client.EventsV1().Events(s.onDemandNamespace()).List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		var reasons []string
		for _, e := range all.Items {
			if e.Regarding.Name == name && e.Regarding.Kind == "Pod" {
				reasons = append(reasons, e.Reason)
			}
			if e.Regarding.Name == name && e.Reason == reason {
				return nil
			}
		}
		return fmt.Errorf("there are %v", reasons)
	}
}
