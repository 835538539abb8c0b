package operation

import (
	"fmt"
	"time"

	"nstance.dev/agent/paver/journal"
)

const (
	// poll is how soon it is looked again at what was asked for.
	poll = time.Second
	// unitAgain is when a unit is told again to restart that does not, and hostAgain when a host is
	// told again to go down that is still there.
	unitAgain = 30 * time.Second
	hostAgain = 2 * time.Minute
	// logsAgain is when logs are collected and sent again of which the servers say nothing.
	logsAgain = time.Minute
	// tellFor is how long a report has for being on its way before the host goes down.
	tellFor = 3 * time.Second
)

// Unit is what the systemd of a host or of a machine says of a unit.
type Unit struct {
	Exists bool
	// Active is its state: active, inactive, failed, activating, deactivating or reloading.
	Active string
	Result string // of its last run: success, or what it failed of
	// Oneshot: it is through when its program has ended.
	Oneshot    bool
	Invocation string // of its last start; empty: it was not started, or that is forgotten
}

// View is what a decision follows from, beside the record.
type View struct {
	Now        time.Time
	HostBootID string
	// Machine is the name of the HostMachine that the host works for; empty: none is known.
	Machine string
	// Slot is the active one; Phase and BootID are those of its machine.
	Slot   journal.Slot
	Phase  journal.Phase
	BootID string
	// Unit is the one that the operation is about: that of a service, or the kubelet of the machine.
	Unit Unit
	// Refused says why the policy of the host does not allow the operation; empty: it does.
	Refused string
	// Unsupported says why this host cannot do it; empty: it can.
	Unsupported string
	// Busy says what has to end before an operation may begin; empty: nothing.
	Busy string
	// Sent: this process has asked for it. What another one was about to ask for may not have been.
	Sent bool
	// Retry is when to try again what has failed.
	Retry time.Time
	// Stored is what the servers have said of the logs that were sent.
	Stored Stored
}

// Stored is what has become of logs. The zero value says that nothing is known of that.
type Stored struct {
	Refused string            // why they are not stored
	Results map[string]string // of logs that are stored, with the key of their object
}

// Kind is what a step does.
type Kind string

// Kinds of steps.
const (
	Wait        Kind = "wait"         // nothing, until Until
	Begin       Kind = "begin"        // write down that it begins, with Marks
	Tell        Kind = "tell"         // write down, and report, that the host is about to go down
	RestartUnit Kind = "restart unit" // have systemd restart the unit
	StopMachine Kind = "stop machine" // stop the active machine in order; it is started again by itself
	RestartHost Kind = "reboot"       // stop the machine within the grace, then reboot the host
	PowerOff    Kind = "power off"    // the same, and power the host off
	SetKeys     Kind = "set keys"     // set SSH keys of the host; what came of it is written by the caller
	Collect     Kind = "collect"      // collect logs, and have them sent
	Reset       Kind = "reset"        // remove all that was ever built; the journal and then Outcome are written by the caller
	End         Kind = "end"          // write down Outcome
)

// Step is one thing to do, and why.
type Step struct {
	Kind   Kind
	Reason string
	// Until is when to look again at the latest; of [Wait].
	Until time.Time
	// Alone: nothing else may be done to the host's machines meanwhile.
	Alone bool
	// Beside: it changes nothing, and may be done between the steps of another change of the host's machines.
	Beside  bool
	Marks   Marks   // of [Begin]
	Outcome Outcome // of [End] and [Reset]
}

// Next returns the one thing to do now for an operation that is not over. Equal arguments give equal
// steps.
func Next(r Record, v View) Step {
	step := next(r, v)
	step.Beside = r.Name == CollectLogs
	return step
}

func next(r Record, v View) Step {
	if r.State == Accepted {
		return begin(r, v)
	}
	if step, done := proved(r, v); done {
		return step
	}
	switch {
	case !v.Now.Before(r.Deadline):
		message := "it was not done by its deadline"
		if r.Message != "" {
			message += ": " + r.Message
		}
		return fail(ReasonTimeout, "%s", message)
	case r.Cancelled && r.Marks.Times == 0:
		return fail(ReasonCancelled, "its operator has cancelled it")
	case v.Now.Before(v.Retry):
		return Step{Kind: Wait, Until: v.Retry, Alone: alone(r), Reason: "the last step failed; the next attempt is due later"}
	}
	return act(r, v)
}

// alone reports whether nothing else may be done to the host while an operation is in progress.
func alone(r Record) bool {
	switch r.Name {
	case Reboot, Shutdown, ResetHost:
		return r.State == InProgress
	}
	return false
}

func fail(reason, format string, args ...any) Step {
	o := Outcome{Failed: true, Reason: reason, Message: fmt.Sprintf(format, args...)}
	return Step{Kind: End, Outcome: o, Reason: o.Message}
}

func complete(message string, results map[string]string) Step {
	return Step{Kind: End, Outcome: Outcome{Message: message, Results: results}, Reason: message}
}

// begin decides about an operation that has not begun.
func begin(r Record, v View) Step {
	if refused, is := refuse(r, v); is {
		return refused
	}
	switch {
	case (r.Name == Reboot || r.Name == Shutdown) && v.HostBootID == "": // which another one is the proof against
		return Step{Kind: Wait, Until: v.Now.Add(poll), Reason: "the boot of the host cannot be read"}
	case v.Busy != "" && r.Name != ResetHost && r.Name != CollectLogs: // a reset is also a way out of what does not end, and logs say why
		return Step{Kind: Wait, Until: v.Now.Add(poll), Reason: v.Busy}
	}
	marks := Marks{HostBootID: v.HostBootID}
	switch r.Name {
	case ApplyConfiguration:
		if v.Slot == journal.None {
			return fail(ReasonNotFound, "this host has no node machine")
		}
	case RestartMachine:
		if v.Slot == journal.None {
			return fail(ReasonNotFound, "this host has no node machine")
		}
		marks.Slot, marks.BootID = v.Slot, v.BootID
		if v.Phase == journal.Running && v.BootID == "" {
			return Step{Kind: Wait, Until: v.Now.Add(poll), Reason: "the node machine is starting"}
		}
	case RestartService:
		switch {
		case !r.OnHost() && v.Slot == journal.None:
			return fail(ReasonNotFound, "this host has no node machine")
		case !r.OnHost() && v.Phase != journal.Running:
			return Step{Kind: Wait, Until: v.Now.Add(poll), Reason: "the node machine does not run"}
		case !v.Unit.Exists:
			return fail(ReasonNotFound, "there is no unit %s", r.Service())
		}
		marks.Slot, marks.Invocation = v.Slot, v.Unit.Invocation
	}
	return Step{Kind: Begin, Marks: marks, Reason: r.Name + " was asked for"}
}

// refuse ends an operation that has not begun and that this host does not carry out.
func refuse(r Record, v View) (Step, bool) {
	invalid := Check(r.Name, r.Parameters)
	switch {
	case r.Cancelled:
		return fail(ReasonCancelled, "its operator has cancelled it"), true
	case !v.Now.Before(r.Deadline):
		return fail(ReasonTimeout, "it was not begun by its deadline, %s by the clock of this host%s", r.Deadline.UTC().Format(time.RFC3339), because(r)), true
	case !Known(r.Name):
		return fail(ReasonUnsupported, "this host does not carry out %.63q", r.Name), true
	case v.Refused != "":
		return fail(ReasonRefusedByHost, "%s", v.Refused), true
	case invalid != nil:
		return fail(ReasonInvalidParameters, "%s", invalid), true
	case v.Unsupported != "":
		return fail(ReasonUnsupported, "%s", v.Unsupported), true
	case r.Name == CollectLogs && !r.TakesLogs:
		return fail(ReasonUnsupported, "the server of this host stores no logs: it is of an earlier release"), true
	case r.Name == ResetHost && v.Machine != "" && r.Parameters["confirm"] != v.Machine:
		return fail(ReasonInvalidParameters, "parameter confirm: %.63q is not the name of the machine, which is %s", r.Parameters["confirm"], v.Machine), true
	}
	return Step{}, false
}

func because(r Record) string {
	if r.Message == "" {
		return ""
	}
	return ": " + r.Message
}

// proved decides whether an operation has done what it is for, or can do so no more.
func proved(r Record, v View) (Step, bool) {
	switch r.Name {
	case RestartService:
		return restarted(r, v)
	case RestartMachine:
		if v.Slot != r.Marks.Slot { // a repave came in between, after which none of its content runs any more
			return complete("the node machine was replaced by another one", map[string]string{"bootID": v.BootID}), v.Phase == journal.Running && v.BootID != ""
		}
		if v.Phase == journal.Running && v.BootID != "" && v.BootID != r.Marks.BootID && v.Unit.Active == "active" {
			return complete("the node machine was booted again, and its kubelet is active", map[string]string{"bootID": v.BootID}), true
		}
	case CollectLogs:
		switch {
		case v.Stored.Refused != "":
			return fail(ReasonNotStored, "the servers do not store the logs: %s", v.Stored.Refused), true
		case v.Stored.Results != nil:
			return complete("the logs are stored", v.Stored.Results), true
		}
	case Reboot, Shutdown:
		if v.HostBootID != "" && r.Marks.HostBootID != "" && v.HostBootID != r.Marks.HostBootID {
			return complete("the host was booted again", map[string]string{"bootID": v.HostBootID}), true
		}
	}
	return Step{}, false
}

// restarted decides what became of the restart of a unit.
func restarted(r Record, v View) (Step, bool) {
	u := v.Unit
	if r.Marks.Times == 0 || u.Invocation == "" || u.Invocation == r.Marks.Invocation {
		return Step{}, false
	}
	results := map[string]string{"invocationID": u.Invocation}
	switch {
	case u.Active == "active" || u.Oneshot && u.Active == "inactive" && u.Result == "success":
		return complete(r.Service()+" was started again", results), true
	case u.Active == "failed":
		step := fail(ReasonUnitFailed, "%s was started again, and failed: %s", r.Service(), u.Result)
		step.Outcome.Results = results
		return step, true
	}
	return Step{}, false
}

// act decides what to do for an operation that has begun, and is not done.
func act(r Record, v View) Step {
	again := func(after time.Duration) bool {
		return r.Marks.Times == 0 || !v.Sent || !v.Now.Before(r.Marks.Sent.Add(after))
	}
	wait := Step{Kind: Wait, Until: v.Now.Add(poll), Alone: alone(r), Reason: r.Name + " is in progress"}
	switch r.Name {
	case RestartService:
		switch u := v.Unit; {
		case !r.OnHost() && v.Phase != journal.Running, !again(unitAgain):
			return wait
		case r.Marks.Times > 0 && (u.Active == "deactivating" || u.Invocation != "" && u.Invocation != r.Marks.Invocation):
			return wait // it has heard: to tell it again would only have it begin anew
		}
		return Step{Kind: RestartUnit, Reason: r.Service() + " is to be restarted"}
	case RestartMachine:
		if v.Phase == journal.Running && v.BootID != "" && v.BootID == r.Marks.BootID {
			return Step{Kind: StopMachine, Reason: "the node machine is to be booted again"}
		}
		return wait
	case Reboot:
		if !again(hostAgain) {
			return wait
		}
		return Step{Kind: RestartHost, Alone: true, Reason: "a reboot was asked for"}
	case Shutdown:
		switch {
		case r.Marks.Told.IsZero():
			return Step{Kind: Tell, Alone: true, Reason: "a shutdown was asked for"}
		case v.Now.Before(r.Marks.Told.Add(tellFor)):
			wait.Until = r.Marks.Told.Add(tellFor)
			return wait
		case !again(hostAgain):
			return wait
		}
		return Step{Kind: PowerOff, Alone: true, Reason: "a shutdown was asked for"}
	case CollectLogs:
		if !again(logsAgain) {
			return wait
		}
		return Step{Kind: Collect, Reason: "logs were asked for"}
	case ApplyConfiguration:
		return Step{Kind: SetKeys, Reason: "SSH keys were sent"}
	case ResetHost:
		return Step{Kind: Reset, Alone: true, Reason: "a reset was asked for", Outcome: Outcome{Message: "everything that was built is removed"}}
	}
	return wait
}

// Looks reports whether what becomes of an operation takes a look at a unit.
func Looks(r Record) bool { return r.Name == RestartService || r.Name == RestartMachine }
