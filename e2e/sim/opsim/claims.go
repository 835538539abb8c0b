package opsim

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"

	infrav1 "nstance.dev/operator/api/infrastructure/v1beta1"
	"nstance.dev/operator/testworld/apiserver"
	"nstance.dev/protos/identity"
)

// claims are the checks of Pods that ask for a machine of their own (O12). They keep a book
// of Pods and Nodes, for they look at changes while the API server is locked.
type claims struct {
	g *guest

	pods  map[string]*corev1.Pod   // by UID
	nodes map[string]*corev1.Node  // by name
	made  map[string][]identity.ID // the instances that were asked for, by the Pod's UID
	kept  map[string]string        // for whom, by the name of a Node that was promised
}

func newClaims(g *guest) claims {
	return claims{g: g, pods: map[string]*corev1.Pod{}, nodes: map[string]*corev1.Node{}, made: map[string][]identity.ID{}, kept: map[string]string{}}
}

// create checks that a Pod gets one instance at a time: the next is asked for when the last
// is on its way out.
func (c *claims) create(m *infrav1.NstanceMachine) {
	uid, id := m.Labels[infrav1.LabelOnDemandPodUID], identity.ID(m.Spec.InstanceID)
	for _, other := range c.made[uid] {
		if in, known := c.g.Instance(other); other != id && known && in.Lives() {
			c.g.Violate("O12", "an instance is asked for pod %s, and %s was made for it and lives", uid, c.g.Name(other))
		}
	}
	if uid != "" && !slices.Contains(c.made[uid], id) {
		c.made[uid] = append(c.made[uid], id)
	}
}

// node takes a Node into the book.
func (c *claims) node(name string, now *corev1.Node) {
	c.nodes[name] = now
	if now == nil {
		delete(c.nodes, name)
		delete(c.kept, name)
	}
}

// pod checks that the gate of a Pod opens when there is a Node that is kept for it, and that
// no other is bound to that Node from then on.
func (c *claims) pod(uid string, now *corev1.Pod) {
	before := c.pods[uid]
	if now == nil {
		delete(c.pods, uid)
		return
	}
	c.pods[uid] = now
	claim := now.Annotations[infrav1.OnDemandClaim]
	if before != nil && gated(before) && !gated(now) {
		name := c.keptFor(claim)
		if name == "" {
			c.g.Violate("O12", "pod %s is let go, and no Node is kept for it", now.Name)
		}
		c.kept[name] = claim
	}
	bound := now.Spec.NodeName != "" && (before == nil || before.Spec.NodeName == "")
	if owner, promised := c.kept[now.Spec.NodeName]; bound && promised && owner != claim {
		c.g.Violate("O12", "pod %s is bound to Node %s, which is kept for %s", now.Name, now.Spec.NodeName, owner)
	}
}

// keptFor is the Node that takes the Pod of a claim alone.
func (c *claims) keptFor(claim string) string {
	taint := corev1.Taint{Key: infrav1.TaintOnDemandClaim, Value: claim, Effect: corev1.TaintEffectNoSchedule}
	for name, node := range c.nodes {
		if node.Labels[infrav1.OnDemandClaim] == claim && slices.Contains(node.Spec.Taints, taint) {
			return name
		}
	}
	return ""
}

// deletes checks that the operator deletes no machine whose Pod works on it.
func (c *claims) deletes(kind, uid string) {
	pod := c.pods[uid]
	if pod == nil || hasEnded(pod) || !pod.DeletionTimestamp.IsZero() || pod.Spec.NodeName == "" {
		return
	}
	if in, known := c.g.Instance(instanceOf(pod.Spec.NodeName)); known && in.Lives() && in.Runs {
		c.g.Violate("O12", "the operator deletes the %s of %s, and pod %s works there", kind, c.g.Name(in.ID), pod.Name)
	}
}

func gated(pod *corev1.Pod) bool { return len(pod.Spec.SchedulingGates) > 0 }

// unserved says which Pod and its machine do not belong together in the end: each Pod that
// asks and has not ended runs on a machine of its own, unless its group is not there or it
// was given up with a word; and each such machine has such a Pod.
func (g *guest) unserved() string {
	alive := map[string]*corev1.Pod{}
	for _, pod := range apiserver.All[*corev1.Pod](g.api) {
		if pod.Namespace != jobs || hasEnded(pod) {
			continue
		}
		alive[string(pod.UID)] = pod
		if _, there := g.Size(pod.Annotations[infrav1.OnDemandGroup]); there && pod.Spec.NodeName == "" &&
			pod.Annotations[infrav1.OnDemandState] != string(infrav1.OnDemandFailed) {
			return fmt.Sprintf("pod %s has no machine: %s", pod.Name, pod.Annotations[infrav1.OnDemandMessage])
		}
	}
	for _, m := range apiserver.All[*infrav1.NstanceMachine](g.api) {
		uid := m.Labels[infrav1.LabelOnDemandPodUID]
		if uid == "" {
			continue
		}
		pod, there := alive[uid]
		if !there {
			return fmt.Sprintf("NstanceMachine %s was made for a Pod that has ended", m.Name)
		}
		if pod.Spec.NodeName != "node-"+m.Spec.InstanceID {
			return fmt.Sprintf("pod %s is on Node %q, and its machine is %s", pod.Name, pod.Spec.NodeName, m.Spec.InstanceID)
		}
	}
	return ""
}
