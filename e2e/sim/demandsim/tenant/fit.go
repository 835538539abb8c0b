package tenant

import (
	corev1 "k8s.io/api/core/v1"

	"nstance.dev/operator/demand/fit"
)

// FitCheck says why a Node should not be drained, by the operator's own check; empty is no reason.
func FitCheck(o *Operator, node string) string {
	c := fit.Cluster{Draining: map[string]bool{}}
	for _, n := range o.Cluster.Nodes() {
		c.Nodes = append(c.Nodes, n.Object)
		c.Draining[n.Object.Name] = o.Draining(n.Object.Name)
	}
	for _, p := range o.Cluster.Pods() {
		if !p.Ended() && p.Object.Status.Phase != corev1.PodFailed {
			c.Pods = append(c.Pods, fit.NewPod(p.Object, fit.Options{}))
		}
	}
	answer := fit.Check(c, []string{node}, fit.Options{})[0]
	if answer.Refused == "" {
		return ""
	}
	return answer.Refused + ": " + answer.Message
}
