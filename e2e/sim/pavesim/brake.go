package pavesim

import (
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"

	"nstance.dev/e2e/sim/objects"
	"nstance.dev/e2e/sim/pavesim/cluster"
	hostsv1 "nstance.dev/operator/api/hosts/v1alpha1"
	"nstance.dev/operator/hosts/lifecycle"
)

// answered notes which Nodes a process was told are gone.
func (o *oracle) answered(p *process, c cluster.Call, err error) {
	if c.Kind != "Node" || c.Verb != "get" {
		return
	}
	m, there := objects.Find[*hostsv1.HostMachine](o.w.api.Store, c.Name)
	if !there || !apierrors.IsNotFound(err) || uidOf(m) == "" {
		return
	}
	if begun(m.Status.Rollout) {
		return // the rollout has deleted it
	}
	if o.missed[p] == nil {
		o.missed[p] = map[string]loss{}
	}
	if o.missed[p][c.Name].node != uidOf(m) {
		o.missed[p][c.Name] = loss{uidOf(m), time.Now()}
	}
}

// loss is a Node that is gone, and since when a process knows that.
type loss struct {
	node string
	at   time.Time
}

// brake checks a repave that a process begins because a Node was deleted: while it knows of too many
// others, one machine at a time is repaved (M87), as far as the process can know which are.
func (o *oracle) brake(p *process, m *hostsv1.HostMachine) {
	machines := objects.Known[*hostsv1.HostMachine](p.cache)
	few := 0
	for _, l := range o.missed[p] {
		if time.Since(l.at) < 5*time.Minute && l.at.After(o.freed) {
			few++
		}
	}
	if few <= lifecycle.Limit(len(machines)) {
		return
	}
	for _, other := range machines {
		stored, there := objects.Find[*hostsv1.HostMachine](o.w.api.Store, other.Name)
		if !there || other.Name == m.Name {
			continue
		}
		if own := o.begun[p][other.Name]; away(other) && away(stored) || own != 0 && own == epochOf(stored) && away(stored) {
			if begun(stored.Status.Rollout) || begun(m.Status.Rollout) {
				continue // rollouts have a budget of their own
			}
			o.w.violate("M87", "%s is repaved while %s is, and %d Nodes are gone", m.Name, other.Name, few)
		}
	}
}

// away is whether a machine is being repaved because its Node was deleted.
func away(m *hostsv1.HostMachine) bool {
	s := m.Status.Repave
	return s != nil && (s.Reason == lifecycle.ReasonNodeDeleted || s.Reason == lifecycle.ReasonNodeReplaced) && s.Epoch == epochOf(m) && uidOf(m) == "" &&
		!meta.IsStatusConditionTrue(m.Status.Conditions, hostsv1.ConditionRepaveFailed)
}
