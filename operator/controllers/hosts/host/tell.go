package host

import (
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	hostsv1 "nstance.dev/operator/api/hosts/v1alpha1"
)

func (r *Reconciler) normal(m *hostsv1.HostMachine, reason, format string, args ...any) {
	r.opts.Events.Eventf(m, nil, corev1.EventTypeNormal, reason, "Host", format, args...)
}

func (r *Reconciler) warn(m *hostsv1.HostMachine, reason, format string, args ...any) {
	r.opts.Events.Eventf(m, nil, corev1.EventTypeWarning, reason, "Host", format, args...)
}

func keyOf(o client.Object) client.ObjectKey { return client.ObjectKeyFromObject(o) }

// tellable are the problems of a host that have an event of their own.
var tellable = map[string]bool{
	hostsv1.EventEpochConflict: true, hostsv1.EventSplitSlots: true, hostsv1.EventJournalCorrupt: true,
}

// tell tells once of each problem that a host reports, and again after it was gone.
func (r *Reconciler) tell(p *pass) {
	s := p.state(r).GetStatus()
	if s == nil {
		return
	}
	there := map[string]bool{}
	for _, problem := range s.GetProblems() {
		what := problem.GetReason()
		there[what] = true
		if !tellable[what] || p.memory.problems[what] {
			continue
		}
		p.memory.problems[what] = true
		r.warn(p.m, what, "%s", problem.GetMessage())
	}
	for what := range tellable {
		if !there[what] {
			delete(p.memory.problems, what)
		}
	}
}
