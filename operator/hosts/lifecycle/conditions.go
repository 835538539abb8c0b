package lifecycle

import (
	"cmp"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	hostsv1 "nstance.dev/operator/api/hosts/v1alpha1"
	"nstance.dev/operator/status"
)

// conditions are those that this package decides, with when they last changed left to the caller. What
// the shard is asked for and does not say now stays as it was.
func conditions(in Input, d Decision) []metav1.Condition {
	m := in.Machine
	if d.Row == RowForeign {
		return foreign()
	}
	all := []metav1.Condition{node(in), ready(in)}
	ofHost := []metav1.Condition{
		connected(in), preflight(in.Host.Report), paved(in, d), repaveFailed(in), drifted(in.Host.Report),
	}
	for _, c := range ofHost {
		if was := meta.FindStatusCondition(m.Status.Conditions, c.Type); was != nil && stays(in, c.Type) {
			c = metav1.Condition{Type: c.Type, Status: was.Status, Reason: was.Reason, Message: was.Message}
		}
		all = append(all, c)
	}
	return all
}

// stays is whether a condition is as it was, because nobody says how it is now: the shard is out of sight,
// or has a new leader that the host has not reported to. That something was assigned since is
// known all the same.
func stays(in Input, condition string) bool {
	if !in.Host.Known {
		return true
	}
	if in.Host.Report != nil {
		return false
	}
	switch condition {
	case hostsv1.ConditionPreflightPassed, hostsv1.ConditionConfigurationDrifted:
		return true
	case hostsv1.ConditionPaved: // of the assignment that the host has reported of
		a, s := assigned(in.Machine), in.Machine.Status.Repave
		return a != nil && s != nil && s.Epoch == a.Epoch && s.Stage != ""
	}
	return false
}

// foreign are the conditions of a machine that stands for no instance.
func foreign() []metav1.Condition {
	var all []metav1.Condition
	for _, c := range []string{hostsv1.ConditionPaved, hostsv1.ConditionNodeJoined, hostsv1.ConditionReady} {
		all = append(all, status.Unknown(c, hostsv1.ReasonNoController, "this release has no controller that builds nodes on hosts without an instance"))
	}
	return all
}

func connected(in Input) metav1.Condition {
	const c = hostsv1.ConditionAgentConnected
	switch {
	case in.Host.Connected:
		return status.True(c, hostsv1.ReasonConnected, "the agent is connected, and a paver answers it")
	case in.Host.Report == nil && in.Instance.Alive:
		return status.False(c, hostsv1.ReasonNoPaver, "the agent of the instance offers no paver (capability machine/v1), so no node can be built on the host")
	}
	return status.False(c, hostsv1.ReasonSilent, "the agent is not connected; what runs on the host goes on")
}

func preflight(r *Report) metav1.Condition {
	const c = hostsv1.ConditionPreflightPassed
	if r == nil {
		return status.Unknown(c, hostsv1.ReasonNoReport, "the host has not reported")
	}
	if check := failedCheck(r); check != nil {
		return status.False(c, word(check.ID), fmt.Sprintf("%s: %s", check.ID, check.Message))
	}
	return status.True(c, hostsv1.ReasonPassed, "the host has what a node machine needs")
}

// word is the name of a check as a reason: cgroup-v2 is CgroupV2.
func word(id string) string {
	var b strings.Builder
	for _, part := range strings.FieldsFunc(id, func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9')
	}) {
		b.WriteString(strings.ToUpper(part[:1]) + part[1:])
	}
	name := b.String()
	if name == "" || name[0] >= '0' && name[0] <= '9' {
		return "Check" + name
	}
	return name
}

// stageReasons are the reasons of condition Paved while a host builds.
var stageReasons = map[Stage]string{
	StageFetch: hostsv1.ReasonFetching, StageBuild: hostsv1.ReasonBuilding, StageGuard: hostsv1.ReasonBuilding,
	StageRetire: hostsv1.ReasonRetiring, StageBoot: hostsv1.ReasonBooting,
}

// paved says whether a slot runs what is assigned.
func paved(in Input, d Decision) metav1.Condition {
	const c = hostsv1.ConditionPaved
	a, r := assigned(in.Machine), in.Host.Report
	switch {
	case a == nil && d.Row == RowFirst && d.Action == None:
		return status.False(c, hostsv1.ReasonNotAssigned, "the host was not told to build anything: "+d.Reason)
	case a == nil:
		return status.False(c, hostsv1.ReasonNotAssigned, "the host was not told to build anything")
	}
	slot := r.running()
	what := fmt.Sprintf("version %d of %s", a.Version, a.Name)
	switch {
	case r == nil || r.Epoch < a.Epoch:
		return status.False(c, hostsv1.ReasonWaiting, fmt.Sprintf("the host has not taken what was assigned, %s", what))
	case slot != nil && slot.Version.Hash == a.Hash && slot.Epoch == a.Epoch && r.failed(a.Epoch) == nil:
		return status.True(c, hostsv1.ReasonRunning, fmt.Sprintf("a slot runs %s", what))
	case stageReasons[r.Stage] != "":
		message := fmt.Sprintf("%s is being built", what) + progress(r.Progress)
		if r.LastError != "" {
			message += fmt.Sprintf("; attempt %d failed: %s", r.Attempts, r.LastError)
		}
		return status.False(c, stageReasons[r.Stage], message)
	}
	if f := r.failed(a.Epoch); f != nil {
		return status.False(c, word(f.Reason), fmt.Sprintf("%s was given up: %s", what, f.Message))
	}
	if slot != nil && slot.Version.Hash == a.Hash { // a machine that was taken over
		return status.True(c, hostsv1.ReasonRunning, fmt.Sprintf("a slot runs %s", what))
	}
	return status.False(c, hostsv1.ReasonWaiting, fmt.Sprintf("no slot runs %s", what))
}

// progress is how far a stage is, in tenths: a condition is written when one more is done, and not
// with each report.
func progress(p Progress) string {
	switch {
	case p.What == "":
		return ""
	case p.Total <= 0 || p.Done < 0:
		return ": " + p.What
	}
	tenths := min(int64(float64(p.Done)/float64(p.Total)*10), 10)
	return fmt.Sprintf(": %s, %d%%", p.What, 10*tenths)
}

// node says whether the Node of the machine has joined.
func node(in Input) metav1.Condition {
	const c = hostsv1.ConditionNodeJoined
	m, name := in.Machine, in.Machine.NodeName()
	switch ref := refers(m); {
	case in.Node.Presence != NodeLive && in.Node.Presence != NodeAbsent:
		if was := meta.FindStatusCondition(m.Status.Conditions, c); was != nil {
			return metav1.Condition{Type: c, Status: was.Status, Reason: was.Reason, Message: was.Message}
		}
		return status.Unknown(c, hostsv1.ReasonWaiting, fmt.Sprintf("it is not known whether Node %s exists", name))
	case gone(in):
		return status.False(c, hostsv1.ReasonNodeGone, fmt.Sprintf("Node %s is gone", name))
	case ref != "":
		return status.True(c, hostsv1.ReasonJoined, fmt.Sprintf("Node %s runs in the machine", name))
	case adopts(m): // nobody makes a credential for it
		return status.False(c, hostsv1.ReasonWaiting,
			fmt.Sprintf("Node %s has not joined; set annotation %s to build another machine in place of the one that was taken over", name, hostsv1.AnnotationRetry))
	}
	return status.False(c, hostsv1.ReasonWaiting, fmt.Sprintf("Node %s has not joined", name))
}

// ready says whether the Node has joined, is ready, and runs what is assigned.
func ready(in Input) metav1.Condition {
	const c = hostsv1.ConditionReady
	joins := node(in)
	a, v := assigned(in.Machine), applied(in.Machine)
	switch {
	case joins.Status != metav1.ConditionTrue:
		return metav1.Condition{Type: c, Status: joins.Status, Reason: joins.Reason, Message: joins.Message}
	case in.Node.Presence != NodeLive: // and it had joined when it was last seen
		if was := meta.FindStatusCondition(in.Machine.Status.Conditions, c); was != nil {
			return metav1.Condition{Type: c, Status: was.Status, Reason: was.Reason, Message: was.Message}
		}
		return status.Unknown(c, hostsv1.ReasonWaiting, "it is not known whether the Node is ready")
	case a == nil || v == nil || !same(a.VersionReference, v.VersionReference):
		return status.False(c, hostsv1.ReasonNotAssignedVersion, "the Node runs another version than was assigned")
	case !in.Node.Ready:
		return status.False(c, hostsv1.ReasonNodeNotReady, cmp.Or(in.Node.ReadyMessage, "the Node is not ready"))
	}
	return status.True(c, hostsv1.ReasonNodeReady, fmt.Sprintf("the Node is ready and runs version %d of %s", v.Version, v.Name))
}

// repaveFailed says whether the last assignment was given up.
func repaveFailed(in Input) metav1.Condition {
	const c = hostsv1.ConditionRepaveFailed
	a, r := assigned(in.Machine), in.Host.Report
	if a == nil {
		return status.False(c, hostsv1.ReasonNotFailed, "nothing was given up")
	}
	f := r.failed(a.Epoch)
	if f == nil {
		if was := meta.FindStatusCondition(in.Machine.Status.Conditions, c); r == nil && was != nil { // the leader is new
			return metav1.Condition{Type: c, Status: was.Status, Reason: was.Reason, Message: was.Message}
		}
		return status.False(c, hostsv1.ReasonNotFailed, "nothing was given up")
	}
	how, reason := "the host runs what it ran before", word(f.Reason)
	switch f.Outcome {
	case OutcomeReverted:
		reason = hostsv1.ReasonReverted
	case OutcomeHeld:
		how, reason = "what failed is left on the host", hostsv1.ReasonHeld
	case OutcomeKept:
	}
	return status.True(c, reason, fmt.Sprintf("version %d of %s was given up in stage %s: %s: %s; %s; it is tried again when another version is desired, the Node is deleted or annotation %s gets another value",
		a.Version, a.Name, f.Stage, f.Reason, f.Message, how, hostsv1.AnnotationRetry))
}

func drifted(r *Report) metav1.Condition {
	const c = hostsv1.ConditionConfigurationDrifted
	switch {
	case r == nil:
		return status.Unknown(c, hostsv1.ReasonNoReport, "the host has not reported")
	case r.Drifted > 0:
		return status.True(c, hostsv1.ReasonFilesChanged, fmt.Sprintf("%d files are not as they were written, see status.drift; the next repave writes them again", r.Drifted))
	}
	return status.False(c, hostsv1.ReasonNoDrift, "all files are as they were written")
}

// phase sums a machine up: the first that applies.
func phase(in Input, d Decision) hostsv1.HostMachinePhase {
	m, provisioning := in.Machine, in.Machine.Status.Provisioning
	is := func(c string) bool { return meta.IsStatusConditionTrue(d.Conditions, c) }
	reason := func(c string) string {
		if found := meta.FindStatusCondition(d.Conditions, c); found != nil {
			return found.Reason
		}
		return ""
	}
	a := assigned(m)
	switch {
	case !m.DeletionTimestamp.IsZero():
		return hostsv1.PhaseDeleting
	case provisioning != nil && provisioning.DiscoveredAt != nil && provisioning.AcceptedAt == nil:
		return hostsv1.PhaseDiscovered
	case in.Older != "", is(hostsv1.ConditionRepaveFailed) && reason(hostsv1.ConditionRepaveFailed) == hostsv1.ReasonHeld:
		return hostsv1.PhaseFailed
	case in.Instance.Off:
		return hostsv1.PhaseOff
	case d.Row == RowForeign && !meta.IsStatusConditionTrue(m.Status.Conditions, hostsv1.ConditionProvisioned):
		return hostsv1.PhasePending
	case d.Row != RowForeign && in.Instance.Complete && !in.Instance.Running && a == nil:
		return hostsv1.PhasePending
	case a == nil && in.Host.Report == nil && !in.Host.Connected && m.Status.Host == nil && in.Desired.Version != nil:
		return hostsv1.PhaseProvisioning
	case in.Desired.Version == nil:
		return hostsv1.PhaseAwaitingConfiguration
	case underWay(m) && !is(hostsv1.ConditionRepaveFailed):
		return phaseOfBuild(m, is(hostsv1.ConditionPaved))
	case is(hostsv1.ConditionReady):
		return hostsv1.PhaseReady
	}
	return hostsv1.PhaseNotReady
}

// underWay is whether a machine has been told to build what has not joined.
func underWay(m *hostsv1.HostMachine) bool {
	a, repave := assigned(m), m.Status.Repave
	return a != nil && refers(m) == "" && (repave == nil || repave.Epoch == a.Epoch)
}

// phaseOfBuild is the phase of a machine that builds.
func phaseOfBuild(m *hostsv1.HostMachine, paved bool) hostsv1.HostMachinePhase {
	switch {
	case paved:
		return hostsv1.PhaseJoining
	case applied(m) == nil:
		return hostsv1.PhasePaving
	}
	return hostsv1.PhaseRepaving
}
