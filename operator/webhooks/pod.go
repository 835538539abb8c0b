package webhooks

import (
	"context"
	"crypto/rand"
	"slices"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	infrav1 "nstance.dev/operator/api/infrastructure/v1beta1"
)

// PodMatchConditions keep all Pods but those that ask for an instance of their own away
// from the webhook: the API server asks about those alone.
func PodMatchConditions() []admissionregistrationv1.MatchCondition {
	return []admissionregistrationv1.MatchCondition{{
		Name: "asks-for-an-instance",
		Expression: "has(object.metadata.annotations) && '" + infrav1.OnDemandGroup +
			"' in object.metadata.annotations",
	}}
}

// Mutate ties a new Pod to the Node that will be made for it, and keeps scheduler and
// autoscaler away from it until that Node is there. claim is the name of the tie; no two
// Pods may have the same. It changes pod and reports whether it did.
//
// It leaves alone Pods that ask for nothing or that share their Node, those that have
// their Node already, and those of DaemonSets, which follow Nodes and not the other way
// round. A Pod that is tied already stays as it is, so asking again changes nothing; what
// is left of another Pod's tie, as in a copy of it, is replaced.
func Mutate(pod *corev1.Pod, claim string) bool {
	if !dedicated(pod) || tied(pod) {
		return false
	}
	pod.Annotations[infrav1.OnDemandClaim] = claim

	if pod.Spec.NodeSelector == nil {
		pod.Spec.NodeSelector = map[string]string{}
	}
	pod.Spec.NodeSelector[infrav1.OnDemandClaim] = claim

	pod.Spec.Tolerations = slices.DeleteFunc(pod.Spec.Tolerations, func(t corev1.Toleration) bool {
		return t.Key == infrav1.TaintOnDemandClaim
	})
	pod.Spec.Tolerations = append(pod.Spec.Tolerations, toleration(claim))

	if !gated(pod) {
		pod.Spec.SchedulingGates = append(pod.Spec.SchedulingGates, corev1.PodSchedulingGate{Name: infrav1.OnDemandGate})
	}
	return true
}

// dedicated reports whether a Pod asks for a Node of its own and can be given one.
func dedicated(pod *corev1.Pod) bool {
	_, mirror := pod.Annotations[corev1.MirrorPodAnnotationKey]
	owner := metav1.GetControllerOf(pod)
	switch {
	case pod.Annotations[infrav1.OnDemandGroup] == "", pod.Annotations[infrav1.OnDemandShared] == "true":
		return false
	case pod.Spec.NodeName != "", mirror, owner != nil && owner.Kind == "DaemonSet":
		return false
	}
	return true
}

// tied reports whether the Pod has everything that Mutate gives it.
func tied(pod *corev1.Pod) bool {
	claim := pod.Annotations[infrav1.OnDemandClaim]
	return claim != "" && pod.Spec.NodeSelector[infrav1.OnDemandClaim] == claim &&
		slices.Contains(pod.Spec.Tolerations, toleration(claim)) && gated(pod)
}

func gated(pod *corev1.Pod) bool {
	return slices.Contains(pod.Spec.SchedulingGates, corev1.PodSchedulingGate{Name: infrav1.OnDemandGate})
}

func toleration(claim string) corev1.Toleration {
	return corev1.Toleration{
		Key: infrav1.TaintOnDemandClaim, Operator: corev1.TolerationOpEqual, Value: claim, Effect: corev1.TaintEffectNoSchedule,
	}
}

// PodDefaulter ties the Pods that the API server asks about.
type PodDefaulter struct {
	// NewClaim makes a claim that no other Pod has; [NewClaim].
	NewClaim func() string
	// Namespaces are those whose Pods may ask; nil: all. A Pod elsewhere would wait for
	// ever for what nobody makes.
	Namespaces []string
}

var _ admission.Defaulter[*corev1.Pod] = PodDefaulter{}

// Default ties a Pod.
func (d PodDefaulter) Default(ctx context.Context, pod *corev1.Pod) error {
	namespace := pod.Namespace
	if request, err := admission.RequestFromContext(ctx); err == nil {
		namespace = request.Namespace // that of a Pod may be set later
	}
	if d.Namespaces == nil || slices.Contains(d.Namespaces, namespace) {
		Mutate(pod, d.NewClaim())
	}
	return nil
}

// NewClaim returns 12 random characters of a to z and 0 to 9: two Pods get the same with
// a chance of one in 10^18.
func NewClaim() string {
	const letters = "abcdefghijklmnopqrstuvwxyz0123456789"
	claim := make([]byte, 12)
	_, _ = rand.Read(claim) // never fails
	for i, b := range claim {
		claim[i] = letters[int(b)%len(letters)]
	}
	return string(claim)
}
