package ondemand

import (
	"fmt"
	"regexp"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	infrav1 "nstance.dev/operator/api/infrastructure/v1beta1"
	"nstance.dev/protos/identity"
)

// Request is what a Pod asks for in its annotations.
type Request struct {
	Group, InstanceType, Shard string
	Vars                       map[string]string
	// Claim binds the Pod to its Node; empty: any Node will do, and other Pods may land on
	// the one that is made.
	Claim string
}

// Variables by which user data learns what the Node is for.
const (
	varLabels = "NSTANCE_NODE_LABELS"
	varTaints = "NSTANCE_NODE_TAINTS"
)

var variable = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]{0,63}$`)

// Asks reports whether a Pod asks for an instance of its own.
func Asks(pod *corev1.Pod) bool {
	_, mirror := pod.Annotations[corev1.MirrorPodAnnotationKey]
	owner := metav1.GetControllerOf(pod)
	daemon := owner != nil && owner.Kind == "DaemonSet"
	return pod.Annotations[infrav1.OnDemandGroup] != "" && !mirror && !daemon
}

// ReadAsk reads what a Pod asks for. The error names the annotation and the remedy.
func ReadAsk(pod *corev1.Pod) (Request, error) {
	a := pod.Annotations
	ask := Request{Group: a[infrav1.OnDemandGroup], InstanceType: a[infrav1.OnDemandInstanceType], Shard: a[infrav1.OnDemandShard], Vars: map[string]string{}}
	if err := identity.ValidateName(ask.Group); err != nil {
		return Request{}, fmt.Errorf("annotation %s: %w; name a group", infrav1.OnDemandGroup, err)
	}
	if err := identity.ValidateName(ask.Shard); ask.Shard != "" && err != nil {
		return Request{}, fmt.Errorf("annotation %s: %w; name a shard, or leave it out", infrav1.OnDemandShard, err)
	}
	if len(ask.InstanceType) > 63 {
		return Request{}, fmt.Errorf("annotation %s: longer than 63 characters; name a machine type", infrav1.OnDemandInstanceType)
	}
	for key, value := range a {
		name, ok := strings.CutPrefix(key, infrav1.OnDemandVarPrefix)
		switch {
		case !ok:
			continue
		case !variable.MatchString(name):
			return Request{}, fmt.Errorf("annotation %s: a variable is named by 1 to 64 letters, digits and underscores, no digit first; rename it", key)
		case len(value) > 4096:
			return Request{}, fmt.Errorf("annotation %s: longer than 4096 bytes; shorten it", key)
		}
		ask.Vars[name] = value
	}
	if claim := a[infrav1.OnDemandClaim]; claim != "" && a[infrav1.OnDemandShared] != "true" && pod.Spec.NodeSelector[infrav1.OnDemandClaim] == claim {
		ask.Claim = claim
		ask.Vars[varLabels] = infrav1.OnDemandClaim + "=" + claim
		ask.Vars[varTaints] = infrav1.TaintOnDemandClaim + "=" + claim + ":NoSchedule"
	}
	if len(ask.Vars) > 64 {
		return Request{}, fmt.Errorf("annotations %s…: %d variables; 64 is the most, two of them for the claim", infrav1.OnDemandVarPrefix, len(ask.Vars))
	}
	return ask, nil
}
