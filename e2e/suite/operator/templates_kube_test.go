//go:build kube

package operator_test

import (
	"context"
	"fmt"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"nstance.dev/e2e/env/kube"
	infrav1 "nstance.dev/operator/api/infrastructure/v1beta1"
)

// O17: a template says whether a shard has its group, from when the group is made.
func TestO17_ATemplateKnowsItsGroup(t *testing.T) {
	s := startSystem(t)
	s.make(t, `
apiVersion: infrastructure.cluster.x-k8s.io/v1beta1
kind: NstanceMachineTemplate
metadata: {name: cloned}
spec: {template: {spec: {groupRef: {name: cloned}}}}
`)
	t.Cleanup(func() {
		if err := s.resource(infrav1.KindMachineTemplate).Delete(shared.Context(), "cloned", metav1.DeleteOptions{}); err != nil {
			t.Error(err)
		}
	})
	knows := func(want metav1.ConditionStatus) func(context.Context) error {
		return func(ctx context.Context) error {
			var template infrav1.NstanceMachineTemplate
			if err := s.read(ctx, infrav1.KindMachineTemplate, "cloned", &template); err != nil {
				return err
			}
			if c := meta.FindStatusCondition(template.Status.Conditions, infrav1.ConditionGroupKnown); c == nil || c.Status != want {
				return fmt.Errorf("GroupKnown is %+v", c)
			}
			return nil
		}
	}
	kube.Await(t, "no shard has the group", knows(metav1.ConditionFalse))
	s.pool(t, "cloned", "shards: [a]", 0)
	kube.Await(t, "a shard has it", knows(metav1.ConditionTrue))
}
