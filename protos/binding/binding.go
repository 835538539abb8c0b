package binding

import (
	"fmt"
	"log/slog"
)

// Join is what makes a machine join a cluster.
type Join struct {
	// Binding names the binding, by the rule of [ValidID]; never used twice for one machine.
	Binding string
	// Blob is what is run, by the rules of [KindOf]. It is a secret.
	Blob []byte
	// Node is how the Node registers.
	Node Node
}

// Check finds what no machine takes. Errors quote nothing of the blob.
func (j Join) Check() error {
	if !ValidID(j.Binding) {
		return fmt.Errorf("%.80q is not the name of a binding", j.Binding)
	}
	if _, err := KindOf(j.Blob); err != nil {
		return err
	}
	return j.Node.Check()
}

// LogValue implements [slog.LogValuer]: the blob is in no log (S14).
func (j Join) LogValue() slog.Value {
	return slog.GroupValue(slog.String("binding", j.Binding), slog.Int("blob_bytes", len(j.Blob)))
}

// String implements [fmt.Stringer], as LogValue does.
func (j Join) String() string { return fmt.Sprintf("binding %s with %d bytes", j.Binding, len(j.Blob)) }

// GoString implements [fmt.GoStringer], as LogValue does.
func (j Join) GoString() string { return j.String() }

// Action is what is done with a binding.
type Action string

// The actions. The empty one is that of a machine without a binding.
const (
	Joining Action = "join"  // it joins, or has joined
	Leaving Action = "leave" // it leaves, or has left
)

// State is how far an action is.
type State string

// The states. The empty one is that of a machine without a binding.
const (
	Accepted State = "accepted" // the agent has handed it over, and it has not begun
	Running  State = "running"  // it is being done
	Done     State = "done"     // it ended with exit code 0
	Failed   State = "failed"   // it failed, and is not tried again
)

// Ended reports whether nothing more becomes of the action.
func (s State) Ended() bool { return s == Done || s == Failed }

// NoExit is the exit code of what did not exit: it was ended by a signal, interrupted by a
// restart of the machine, or never begun.
const NoExit = -1

// Report is what became of a binding. The zero value is that of a machine that has none and
// never had one.
type Report struct {
	Binding string // its name
	Action  Action
	State   State
	// ExitCode is that of the program that ended the action; [NoExit] where it was not an exit.
	ExitCode int
	// Output is the end of what was printed, at most [MaxOutput] bytes. It may hold parts of
	// the blob and is in no log.
	Output []byte
	// Error is why the action failed, for people; at most [MaxError] bytes, printable, and
	// nothing of the blob.
	Error string
}

// LogValue implements [slog.LogValuer]: the output is in no log (S14).
func (r Report) LogValue() slog.Value {
	return slog.GroupValue(slog.String("binding", r.Binding), slog.String("action", string(r.Action)),
		slog.String("state", string(r.State)), slog.Int("exit_code", r.ExitCode), slog.String("error", r.Error))
}

// String implements [fmt.Stringer], as LogValue does.
func (r Report) String() string {
	return fmt.Sprintf("binding %s: %s %s, exit code %d, %d bytes printed: %s", r.Binding, r.Action, r.State, r.ExitCode, len(r.Output), r.Error)
}

// GoString implements [fmt.GoStringer], as LogValue does.
func (r Report) GoString() string { return r.String() }

// Last returns the end of what was printed, of the length that is reported.
func Last(output []byte) []byte { return output[max(0, len(output)-MaxOutput):] }
