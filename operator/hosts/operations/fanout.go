package operations

import (
	"cmp"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	hostsv1 "nstance.dev/operator/api/hosts/v1alpha1"
)

// Limit is how many children of a parent may run at once; 0: all.
func Limit(parent *hostsv1.MachineOperation) int {
	if parent.Spec.MaxConcurrent == nil {
		return 0
	}
	return int(*parent.Spec.MaxConcurrent)
}

// FanOut is what a decision about a parent follows from.
type FanOut struct {
	Parent *hostsv1.MachineOperation
	// Selected are the machines that its selector selects now. It counts until the children are made.
	Selected []*hostsv1.HostMachine
	// Invalid is why the selector cannot be read; nil: it can.
	Invalid error
	// Children that are there.
	Children []*hostsv1.MachineOperation
	// Certain: Children were read from the API server, not from a cache.
	Certain bool
	// Running are how many children an executor has or may take.
	Running int
}

// FanOutDecision is what a parent is to say, and what becomes of its children.
type FanOutDecision struct {
	Delete bool
	Status hostsv1.MachineOperationStatus
	// Create these children, and remove those that were made for machines which are not selected any
	// more; then, and not before, write the status.
	Create, Remove []*hostsv1.MachineOperation
	// LookAgain: whether all children have finished, or are gone, is to be asked of the API server.
	LookAgain bool
	// Wake these children: others have finished, and they may begin.
	Wake  []string
	After time.Duration
}

// DecideFanOut returns what comes next for an operation with a selector. Its children are made once: those
// that the selector selects until all are there and the total is written. None begins before.
func DecideFanOut(in FanOut, now time.Time) FanOutDecision {
	op := in.Parent
	d := FanOutDecision{Status: *op.Status.DeepCopy()}
	single := func(s Decision) FanOutDecision {
		return FanOutDecision{Delete: s.Delete, Status: s.Status, After: s.After}
	}
	switch {
	case Finished(op.Status.State):
		return single(ended(op, Decision{Status: d.Status}, now))
	case !op.DeletionTimestamp.IsZero():
		return d
	}
	if op.Status.Children == nil {
		switch {
		case in.Invalid != nil:
			return single(failed(op, Decision{Status: d.Status}, now, hostsv1.ReasonInvalidSelector, "%s", in.Invalid))
		case len(in.Selected) == 0:
			return single(failed(op, Decision{Status: d.Status}, now, hostsv1.ReasonNoMachines, "no HostMachine matches the selector"))
		}
		return begin(in, d)
	}
	return sum(in, d, now)
}

// begin has the children made.
func begin(in FanOut, d FanOutDecision) FanOutDecision {
	there := map[string]*hostsv1.MachineOperation{}
	for _, child := range in.Children {
		there[child.Name] = child
	}
	for _, m := range in.Selected {
		child := Child(in.Parent, m)
		if there[child.Name] == nil {
			d.Create = append(d.Create, child)
		}
		delete(there, child.Name)
	}
	for _, name := range sortedKeys(there) {
		d.Remove = append(d.Remove, there[name])
	}
	d.Status.State = hostsv1.OperationPending
	d.Status.Children = &hostsv1.OperationChildren{Total: int32(len(in.Selected)), Pending: int32(len(in.Selected))} //nolint:gosec // no cluster has so many
	d.Status.Reason, d.Status.Message = hostsv1.ReasonBegun, ""
	return d
}

// sum adds the children up. Those that somebody has deleted count as failed.
func sum(in FanOut, d FanOutDecision, now time.Time) FanOutDecision {
	op := in.Parent
	counts := hostsv1.OperationChildren{Total: op.Status.Children.Total}
	var waiting []*hostsv1.MachineOperation
	unfinished := int32(0)
	for _, child := range in.Children {
		switch child.Status.State {
		case hostsv1.OperationComplete:
			counts.Complete++
		case hostsv1.OperationFailed:
			counts.Failed++
		case hostsv1.OperationInProgress:
			counts.InProgress++
			unfinished++
		default:
			counts.Pending++
			unfinished++
			if child.Labels[hostsv1.LabelExecutor] == "" && child.Status.Reason == hostsv1.ReasonLimited || child.Status.Reason == hostsv1.ReasonNotBegun {
				waiting = append(waiting, child)
			}
		}
	}
	cancelled := max(0, counts.Total-counts.Complete-counts.Failed-unfinished)
	if unfinished == 0 && !in.Certain {
		d.LookAgain = true
		return d
	}
	if in.Certain || unfinished == 0 {
		counts.Failed += cancelled
	} else {
		counts.Pending += cancelled // or not seen yet
	}
	d.Status.Children = &counts
	if unfinished > 0 {
		if counts.InProgress > 0 || op.Status.State == hostsv1.OperationInProgress {
			d.Status.State = hostsv1.OperationInProgress
			if d.Status.StartTime == nil {
				start := metav1.NewTime(now.Truncate(time.Second))
				d.Status.StartTime = &start
			}
		}
		d.Wake = wake(op, waiting, in.Running)
		return d
	}
	s := Decision{Status: d.Status}
	if counts.Failed > 0 {
		s.Status = fail(s.Status, now, hostsv1.ReasonChildrenFailed, "%d of %d failed, %d of them cancelled", counts.Failed, counts.Total, cancelled)
	} else {
		s.Status = finish(s.Status, Outcome{Reason: hostsv1.ReasonSucceeded}, now)
	}
	s = finished(op, s, now)
	d.Status = s.Status
	return d
}

// wake are the children that may begin because others have finished, the oldest names first.
func wake(parent *hostsv1.MachineOperation, waiting []*hostsv1.MachineOperation, running int) (names []string) {
	free := len(waiting)
	if limit := Limit(parent); limit > 0 {
		free = min(free, max(0, limit-running))
	}
	slices.SortFunc(waiting, func(a, b *hostsv1.MachineOperation) int { return cmp.Compare(a.Name, b.Name) })
	for _, child := range waiting[:free] {
		names = append(names, child.Name)
	}
	return names
}
