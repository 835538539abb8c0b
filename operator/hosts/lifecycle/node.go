package lifecycle

import (
	"time"

	hostsv1 "nstance.dev/operator/api/hosts/v1alpha1"
)

const (
	// ConfirmAfter is how long after the first live answer the second one is asked for.
	ConfirmAfter = 2 * time.Second
	// freshHeartbeat is how old the last word of a kubelet may be when its Node is taken for joined.
	freshHeartbeat = 2 * time.Minute
)

// Look is one live answer of the API server about the Node of a machine's name.
type Look struct {
	// Answered: the API server said that the Node is there or that it is not. Anything else, a
	// time-out or a refusal among them, says nothing.
	Answered bool
	// UID of the Node; empty: there is none.
	UID string
}

// Absence counts live answers that say that the Node of a machine is gone. The zero value: none
// has. It is kept by whoever looks, and lost with the process, which costs another two looks.
type Absence struct {
	first time.Time // the first of the present run of such answers
	last  time.Time
	ref   string // the Node that is missed
}

// Next takes one answer in. The Node that is missed has the UID ref. Only that there is none, or
// one of another UID, counts; an answer that says nothing, or that the Node is there, begins anew.
func (a Absence) Next(ref string, look Look, now time.Time) Absence {
	if ref == "" || !look.Answered || look.UID == ref {
		return Absence{}
	}
	if a.ref != ref || a.first.IsZero() || now.Before(a.last) {
		return Absence{first: now, last: now, ref: ref}
	}
	a.last = now
	return a
}

// Confirmed reports whether two answers, ConfirmAfter or more apart, said that the Node of this UID is gone.
func (a Absence) Confirmed(ref string) bool {
	return ref != "" && a.ref == ref && a.last.Sub(a.first) >= ConfirmAfter
}

// Since returns when the Node of this UID was first missed; zero: it is not.
func (a Absence) Since(ref string) time.Time {
	if ref == "" || a.ref != ref {
		return time.Time{}
	}
	return a.first
}

// joined returns the running slot that a Node is the Node of: its kubelet runs in the very boot of
// the machine that the host reports, and was heard of. So a Node that is left of an earlier machine is
// never taken for the new one. Nil: it is of none.
func joined(r *Report, n Node, now time.Time) *Slot {
	slot := r.running()
	if slot == nil || !n.there() || slot.BootID == "" || slot.BootID != n.BootID || now.Sub(n.Heartbeat) > freshHeartbeat {
		return nil
	}
	return slot
}

// refers is the UID of the Node that a machine has; empty: it has none.
func refers(m *hostsv1.HostMachine) string {
	if m.Status.NodeRef == nil {
		return ""
	}
	return m.Status.NodeRef.UID
}

// assigned is what the host was told to build; nil: nothing.
func assigned(m *hostsv1.HostMachine) *hostsv1.AssignedVersion {
	if m.Status.Configuration == nil {
		return nil
	}
	return m.Status.Configuration.Assigned
}

// applied is what the Node was built from; nil: there was none yet.
func applied(m *hostsv1.HostMachine) *hostsv1.AppliedVersion {
	if m.Status.Configuration == nil {
		return nil
	}
	return m.Status.Configuration.Applied
}

// same is whether two references mean the same content.
func same(a, b hostsv1.VersionReference) bool {
	return a.Name == b.Name && a.Version == b.Version && a.UID == b.UID && a.Hash == b.Hash
}
