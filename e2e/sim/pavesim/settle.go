package pavesim

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"nstance.dev/e2e/sim/objects"
	hostsv1 "nstance.dev/operator/api/hosts/v1alpha1"
)

const (
	// patience is how long the world may take until every machine is as it has to be.
	patience = 2 * time.Hour
	// quiet is how long it is looked at then.
	quiet = 5 * time.Minute
)

// survivor is the process of the operator that goes on when the faults have ended.
const survivor = "a"

// settling is the end of a run.
type settling struct{ *world }

// settle ends all faults, waits until every machine has its Node or says why not, and then demands that
// nothing more is begun.
func (w settling) settle() {
	w.calm = true
	w.stop("b")
	w.launch(survivor)
	if !w.shard.Leads() {
		w.endTerm()
		w.lead()
	}
	if w.outage.until.After(time.Now()) {
		w.outage = outage{}
	}
	for _, h := range w.hosts {
		h.agent.away = time.Time{}
		w.change(&hostsv1.HostMachine{}, h.name, func(o client.Object) {
			o.(*hostsv1.HostMachine).Spec.Paused = false //nolint:forcetypeassert // it was asked for as such
		})
	}
	clear(w.stuck)
	for _, c := range objects.All[*hostsv1.MachineConfiguration](w.api.Store) {
		w.change(&hostsv1.MachineConfiguration{}, c.Name, func(o client.Object) {
			c := o.(*hostsv1.MachineConfiguration) //nolint:forcetypeassert // it was asked for as such
			if c.Spec.Paused = false; c.Spec.UpdateStrategy != nil {
				c.Spec.UpdateStrategy.RollingUpdate.Paused, c.Spec.UpdateStrategy.RollingUpdate.Windows = false, nil
			}
		})
	}
	w.notef("the faults have ended")
	var why []string
	for end := time.Now().Add(patience); time.Now().Before(end); {
		w.pass(time.Minute) // what is due is seen, and begun
		if why = w.unsettled(); len(why) == 0 {
			break
		}
		w.obey()
	}
	for _, says := range why {
		promise, what, _ := strings.Cut(says, " ")
		w.violate(promise, "after %v: %s", patience, what)
	}
	if len(why) > 0 {
		return
	}
	before := map[string]int64{}
	for _, m := range objects.All[*hostsv1.HostMachine](w.api.Store) {
		before[m.Name] = epochOf(m)
	}
	w.pass(quiet)
	for _, m := range objects.All[*hostsv1.HostMachine](w.api.Store) {
		if epochOf(m) != before[m.Name] {
			w.violate("M49", "nothing has changed, and %s is at epoch %d after %d", m.Name, epochOf(m), before[m.Name])
		}
	}
	for _, says := range w.unsettled() {
		promise, what, _ := strings.Cut(says, " ")
		w.violate(promise, "when all was quiet: %s", what)
	}
}

// obey is a user who does what the condition of a machine says.
func (w settling) obey() {
	for _, m := range objects.All[*hostsv1.HostMachine](w.api.Store) {
		said := ""
		if c := meta.FindStatusCondition(m.Status.Conditions, hostsv1.ConditionPaved); c != nil && c.Reason == hostsv1.ReasonNotAssigned {
			said = c.Message
		}
		if c := meta.FindStatusCondition(m.Status.Conditions, hostsv1.ConditionNodeJoined); c != nil && c.Status == metav1.ConditionFalse {
			said += c.Message
		}
		switch {
		case strings.Contains(said, "exists and was not built here; delete it"):
			w.deleteNode(m.Name)
		case strings.Contains(said, hostsv1.AnnotationRetry):
			w.change(&hostsv1.HostMachine{}, m.Name, func(o client.Object) {
				o.SetAnnotations(map[string]string{hostsv1.AnnotationRetry: "as it says"})
			})
		}
	}
}

// pass lets the world go on for some time.
func (w settling) pass(d time.Duration) {
	for end := time.Now().Add(d); time.Now().Before(end); {
		w.step(end)
	}
}

// unsettled says of each machine what is not as it has to be, after the promise that it breaks.
func (w settling) unsettled() (all []string) {
	for _, h := range w.hosts {
		m, there := objects.Find[*hostsv1.HostMachine](w.api.Store, h.name)
		if !there {
			all = append(all, "M3 "+h.name+" has no HostMachine")
			continue
		}
		if why := w.wrong(h, m); why != "" {
			all = append(all, why+"; it says "+says(m.Status.Conditions))
		}
	}
	return append(all, w.unended()...)
}

// unended says which operations have not ended that could have.
func (w settling) unended() (all []string) {
	for _, op := range objects.All[*hostsv1.MachineOperation](w.api.Store) {
		if !over(op) {
			all = append(all, fmt.Sprintf("M78 %s is %q: %s, %s", op.Name, op.Status.State, op.Status.Reason, op.Status.Message))
		}
	}
	return all
}

// behind says that a rollout has not brought a machine to the newest version, and does not say why.
func (w settling) behind(h *host, m *hostsv1.HostMachine, failed bool) string {
	if begun(m.Status.Rollout) {
		return bad(h, "M68", "what the rollout has begun with it has not ended: %v", m.Status.Rollout)
	}
	if _, rolls := w.rolls(); !rolls || failed || !follows(m) {
		return ""
	}
	for _, c := range objects.All[*hostsv1.MachineConfiguration](w.api.Store) {
		newest := int32(0)
		for _, v := range objects.All[*hostsv1.MachineConfigurationVersion](w.api.Store) {
			if metav1.IsControlledBy(v, c) {
				newest = max(newest, v.Spec.Version)
			}
		}
		if !meta.IsStatusConditionTrue(c.Status.Conditions, hostsv1.ConditionRolloutHalted) && m.Status.Configuration.Applied.Version != newest {
			return bad(h, "M66", "it runs version %d, and %d is the newest; the rollout says %s", m.Status.Configuration.Applied.Version, newest, says(c.Status.Conditions))
		}
	}
	return ""
}

// wrong says what is wrong with a machine. What has failed finally has to be said, and is left to a user.
func (w settling) wrong(h *host, m *hostsv1.HostMachine) string {
	pending := meta.IsStatusConditionTrue(m.Status.Conditions, hostsv1.ConditionConfigurationPending)
	failed := meta.IsStatusConditionTrue(m.Status.Conditions, hostsv1.ConditionRepaveFailed)
	if why, over := w.idle(h, m, pending); over || failed && m.Spec.FailurePolicy == hostsv1.FailureHold {
		return why
	}
	runs := h.Runs()
	node, exists := objects.Find[*corev1.Node](w.api.Store, h.name)
	switch {
	case pending && (!exists || len(runs) == 0):
		return "" // nothing can be built, and it says so
	case len(runs) != 1 || !runs[0].Kubelet:
		return notOne(h, m)
	case !exists && failed && uidOf(m) == "" && h.kubelets[runs[0].Boot] != nil && h.kubelets[runs[0].Boot].registered:
		return "" // somebody has deleted the Node that the old machine came back with, before it was known
	case !exists:
		return bad(h, "M49", "it has no Node")
	case node.Status.NodeInfo.BootID != runs[0].Boot || ready(node) != corev1.ConditionTrue:
		return bad(h, "M46", "its Node is not that of what runs, or not ready")
	}
	if why := cmp.Or(untrue(h, m, node, failed, pending), w.behind(h, m, failed)); why != "" {
		return why
	}
	if id := tokenID(h.Read(runs[0].Slot, bootstrap)); id != "" && !failed {
		if _, usable := w.api.Bound(id); usable {
			return bad(h, "M43", "its Node has joined, and credential %s can still be used", id)
		}
	}
	return ""
}

// notOne says what is wrong where there is not one slot that runs with its kubelet.
func notOne(h *host, m *hostsv1.HostMachine) string {
	switch runs := h.Runs(); len(runs) {
	case 0:
		return bad(h, "M61", "no slot runs, and epoch %d is assigned", epochOf(m))
	case 1:
		return bad(h, "M59", "the kubelet of slot %s does not run", runs[0].Slot)
	default:
		return bad(h, "M58", "%d slots run", len(runs))
	}
}

// idle says what is wrong with a machine to which nothing is assigned; over: nothing more has to be so.
func (w settling) idle(h *host, m *hostsv1.HostMachine, pending bool) (why string, over bool) {
	c := m.Status.Configuration
	switch {
	case !m.DeletionTimestamp.IsZero():
		return bad(h, "M6", "it is being deleted"), true
	case pending == w.selected(m):
		return bad(h, "M12", "it waits for a version: %v, and there is one: %v", pending, !pending), true
	case c != nil && c.Assigned != nil:
		return "", false
	case pending:
		return "", true // nothing can be built, and it says so
	}
	return bad(h, "M42", "nothing is assigned"), true
}

// selected is whether there is a version that a machine can be built from: the one that it names, or any of the one
// configuration, which selects all machines.
func (w settling) selected(m *hostsv1.HostMachine) bool {
	ref := m.Spec.ConfigurationRef
	if ref == nil || ref.Version == nil {
		return len(objects.All[*hostsv1.MachineConfiguration](w.api.Store)) > 0
	}
	_, there := objects.Find[*hostsv1.MachineConfigurationVersion](w.api.Store, fmt.Sprintf("%s-v%d", ref.Name, *ref.Version))
	return there
}

// untrue says where the status of a machine, or its Node, says something else than what its one slot runs.
func untrue(h *host, m *hostsv1.HostMachine, node *corev1.Node, failed, pending bool) string {
	c, slot := m.Status.Configuration, h.Runs()[0].Slot
	switch {
	case uidOf(m) != string(node.UID):
		return bad(h, "M48", "it remembers Node %q, and has %q", uidOf(m), node.UID)
	case c.Applied == nil:
		return bad(h, "M45", "the status does not say what it runs")
	case node.Annotations[hostsv1.AnnotationConfigurationHash] != string(c.Applied.Hash) || node.Annotations[hostsv1.AnnotationMachineUID] != string(m.UID):
		return bad(h, "M45", "its Node says %q of %q", node.Annotations[hostsv1.AnnotationConfigurationHash], node.Annotations[hostsv1.AnnotationMachineUID])
	case strings.TrimSpace(h.Read(slot, "etc/nstance/hash")) != string(c.Applied.Hash):
		return bad(h, "M45", "it runs %.20s, and the status says %.20s", h.Read(slot, "etc/nstance/hash"), c.Applied.Hash)
	case c.Applied.VersionReference != c.Assigned.VersionReference && !failed:
		return bad(h, "M47", "it runs version %d, and version %d is assigned", c.Applied.Version, c.Assigned.Version)
	case m.Status.Phase != hostsv1.PhaseReady && !failed && !pending:
		return bad(h, "M47", "its phase is %s", m.Status.Phase)
	}
	return ""
}

// bad is a broken promise about a host.
func bad(h *host, promise, format string, args ...any) string {
	return promise + " " + h.name + ": " + fmt.Sprintf(format, args...)
}

func says(conditions []metav1.Condition) string {
	var all []string
	for _, c := range conditions {
		all = append(all, fmt.Sprintf("%s=%s/%s (%s)", c.Type, c.Status, c.Reason, c.Message))
	}
	return strings.Join(all, ", ")
}
