package opsim

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "nstance.dev/operator/api/infrastructure/v1beta1"
	"nstance.dev/operator/testworld/apiserver"
	"nstance.dev/protos/identity"
)

// jobs is where Pods are that ask for a machine of their own.
const jobs = "jobs"

// jobName is the name of the nth of them. It comes back: another Pod may have it later.
func jobName(n int) string { return fmt.Sprintf("job-%d", n) }

// ask makes the nth Pod, if there is none, as the operator's webhook lets it through: with a
// claim that binds it to its Node, and a gate that keeps it from the scheduler until then.
func (u *users) ask(n int, group string) {
	name := jobName(n)
	uid := fmt.Sprintf("%s-%d", name, u.g.Nth(name))
	claim := "claim-" + uid
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: jobs, Name: name, UID: types.UID(uid), Finalizers: []string{lingers},
			Annotations: map[string]string{infrav1.OnDemandGroup: group, infrav1.OnDemandClaim: claim},
		},
		Spec: corev1.PodSpec{
			NodeSelector:    map[string]string{infrav1.OnDemandClaim: claim},
			Tolerations:     []corev1.Toleration{{Key: infrav1.TaintOnDemandClaim, Operator: corev1.TolerationOpEqual, Value: claim, Effect: corev1.TaintEffectNoSchedule}},
			SchedulingGates: []corev1.PodSchedulingGate{{Name: infrav1.OnDemandGate}},
		},
		Status: corev1.PodStatus{Phase: corev1.PodPending},
	}
	u.retry("ask "+uid, func(ctx context.Context) (string, error) {
		err := u.c.Create(ctx, pod.DeepCopy())
		if client.IgnoreAlreadyExists(err) != nil {
			return "", err
		}
		if err != nil {
			return "", nil //nolint:nilerr // it is there, or the last answer was lost
		}
		return fmt.Sprintf("pod %s asks for a machine of group %s", name, group), nil
	})
}

// done lets the work of the nth Pod come to its end, if it runs.
func (u *users) done(n int) {
	u.retry("done "+jobName(n), func(ctx context.Context) (string, error) {
		pod, there := apiserver.Get[*corev1.Pod](u.g.api, jobs, jobName(n))
		if !there || pod.Status.Phase != corev1.PodRunning || !pod.DeletionTimestamp.IsZero() {
			return "", nil
		}
		next := pod.DeepCopy()
		next.Status.Phase = corev1.PodSucceeded
		return fmt.Sprintf("pod %s is done", pod.Name), u.c.Status().Update(ctx, next)
	})
}

// drop deletes the nth Pod, if there is one.
func (u *users) drop(n int) {
	u.retry("drop "+jobName(n), func(ctx context.Context) (string, error) {
		pod, there := apiserver.Get[*corev1.Pod](u.g.api, jobs, jobName(n))
		if !there {
			return "", nil
		}
		return fmt.Sprintf("pod %s is deleted", pod.Name), u.c.Delete(ctx, pod.DeepCopy())
	})
}

// hasEnded reports whether a Pod works no more and never will.
func hasEnded(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
}

// fits reports whether a Node is one that a Pod may be bound to.
func fits(pod *corev1.Pod, node *corev1.Node) bool {
	if !node.DeletionTimestamp.IsZero() || !works(node) || node.Spec.Unschedulable {
		return false
	}
	for key, value := range pod.Spec.NodeSelector {
		if node.Labels[key] != value {
			return false
		}
	}
	return !slices.ContainsFunc(node.Spec.Taints, func(taint corev1.Taint) bool { return !tolerates(pod, taint) })
}

func tolerates(pod *corev1.Pod, taint corev1.Taint) bool {
	return slices.ContainsFunc(pod.Spec.Tolerations, func(t corev1.Toleration) bool {
		return t.Key == taint.Key && t.Value == taint.Value && t.Effect == taint.Effect
	})
}

// introduce lets a Node say for which Pod it was made, as user data that knows of it does.
// Half of all Nodes have such: the operator has to do with both.
func (k *kubelets) introduce(node *corev1.Node, id identity.ID) {
	if k.g.Below(2, "user data", id) == 0 {
		return
	}
	for _, m := range apiserver.All[*infrav1.NstanceMachine](k.g.api) {
		if m.Spec.InstanceID != id.String() {
			continue
		}
		if key, value, ok := strings.Cut(m.Spec.Vars["NSTANCE_NODE_LABELS"], "="); ok {
			node.Labels[key] = value
		}
		if key, rest, ok := strings.Cut(m.Spec.Vars["NSTANCE_NODE_TAINTS"], "="); ok {
			value, effect, _ := strings.Cut(rest, ":")
			node.Spec.Taints = append(node.Spec.Taints, corev1.Taint{Key: key, Value: value, Effect: corev1.TaintEffect(effect)})
		}
	}
}
