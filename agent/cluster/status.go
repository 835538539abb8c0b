package cluster

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"nstance.dev/protos/binding"
)

// maxPast is how many bindings that have ended are remembered.
const maxPast = 64

// Status is what the machine's bindings have come to. The zero value is that of a machine that
// never had one.
type Status struct {
	Version int `json:"v"`
	// Current is the binding that the machine has, or had last.
	Current Entry `json:"current,omitzero"`
	// Refused is the last request that was refused; its state is failed.
	Refused Entry `json:"refused,omitzero"`
	// Past are the bindings that have ended, the latest last. They never begin again.
	Past []string `json:"past,omitempty"`
}

// Entry is how far one action on one binding is.
type Entry struct {
	Binding  string         `json:"binding_id,omitempty"`
	Action   binding.Action `json:"action,omitempty"`
	State    binding.State  `json:"state,omitempty"` // running, done or failed
	ExitCode int            `json:"exit_code,omitempty"`
	Output   []byte         `json:"output,omitempty"`
	Error    string         `json:"error,omitempty"`
}

// Report is the entry as it is reported.
func (e Entry) Report() binding.Report {
	return binding.Report{
		Binding: e.Binding, Action: e.Action, State: e.State, ExitCode: e.ExitCode, Output: e.Output, Error: e.Error,
	}
}

// Failure is the entry of an action that was not begun.
func Failure(id string, action binding.Action, why string) Entry {
	return Entry{Binding: id, Action: action, State: binding.Failed, ExitCode: binding.NoExit, Error: why}
}

// Report is what became of a binding; false if the status knows nothing of it.
func (s Status) Report(id string) (r binding.Report, known bool) {
	switch {
	case id == "":
		return binding.Report{}, false
	case s.Current.Binding == id:
		return s.Current.Report(), true
	case slices.Contains(s.Past, id):
		return binding.Report{Binding: id, Action: binding.Leaving, State: binding.Done}, true
	case s.Refused.Binding == id:
		return s.Refused.Report(), true
	}
	return binding.Report{}, false
}

// Step is what is done with a request.
type Step int

// The steps.
const (
	Run     Step = iota + 1 // what it asks for
	Known                   // nothing: it was begun before
	Nothing                 // nothing: the machine never joined what it is to leave
	Refuse                  // nothing, and it has failed
)

// Next says what is to be done with a request while nothing runs; why is the reason of a
// refusal. A binding is joined once and left once. Another one begins when the one before has
// left.
func (s Status) Next(r Request) (step Step, why string) {
	if _, known := s.Report(r.Binding); known && (s.Current.Binding != r.Binding || s.Current.Action == r.Action) {
		return Known, ""
	}
	if s.Current.Binding == r.Binding {
		if r.Action == binding.Leaving {
			return Run, "" // of what has joined, or has failed to
		}
		return Known, ""
	}
	if r.Action == binding.Leaving {
		return Nothing, ""
	}
	if s.occupied() {
		return Refuse, fmt.Sprintf("the machine has not left binding %s", s.Current.Binding)
	}
	return Run, ""
}

// occupied reports whether the machine has a binding that it has not left.
func (s Status) occupied() bool {
	return s.Current.Binding != "" && (s.Current.Action != binding.Leaving || s.Current.State != binding.Done)
}

// With returns the status in which an action stands like this.
func (s Status) With(e Entry) Status {
	s.Past = slices.Clone(s.Past)
	if before := s.Current.Binding; before != "" && before != e.Binding {
		s.remember(before)
	}
	s.Current = e
	if s.Refused.Binding == e.Binding {
		s.Refused = Entry{}
	}
	return s
}

// WithPast returns the status in which a binding has ended that never began.
func (s Status) WithPast(id string) Status {
	s.Past = slices.Clone(s.Past)
	s.remember(id)
	return s
}

func (s *Status) remember(id string) {
	s.Past = append(slices.DeleteFunc(s.Past, func(p string) bool { return p == id }), id)
	s.Past = s.Past[max(0, len(s.Past)-maxPast):]
}

// Interrupted returns the status after a restart of the program or the machine: what ran was
// cut off, and is not run again.
func (s Status) Interrupted() Status {
	if s.Current.State == binding.Running {
		s.Current = Failure(s.Current.Binding, s.Current.Action, "interrupted: the machine or nstance-cluster.service was restarted")
	}
	return s
}

// Encode returns the content of the file.
func (s Status) Encode() ([]byte, error) {
	s.Version = version
	data, err := json.Marshal(s)
	if err != nil {
		return nil, fmt.Errorf("encode status: %w", err)
	}
	return append(data, '\n'), nil
}

// DecodeStatus reads and checks a status.
func DecodeStatus(data []byte) (Status, error) {
	var s Status
	if err := decode(data, MaxStatus, &s); err != nil {
		return Status{}, fmt.Errorf("status: %w", err)
	}
	if s.Version != version {
		return Status{}, fmt.Errorf("status: %w: version %d is not known", ErrInvalid, s.Version)
	}
	if len(s.Past) > maxPast || slices.ContainsFunc(s.Past, func(id string) bool { return !binding.ValidID(id) }) {
		return Status{}, fmt.Errorf("status: %w: bindings that have ended are not valid", ErrInvalid)
	}
	if err := errors.Join(s.Current.check(), s.Refused.check()); err != nil {
		return Status{}, fmt.Errorf("status: %w: %w", ErrInvalid, err)
	}
	return s, nil
}

func (e Entry) check() error {
	if e.Binding == "" {
		if e.Action != "" || e.State != "" || e.ExitCode != 0 || len(e.Output) > 0 || e.Error != "" {
			return errors.New("an entry has no binding")
		}
		return nil
	}
	actions, states := []binding.Action{binding.Joining, binding.Leaving}, []binding.State{binding.Running, binding.Done, binding.Failed}
	switch {
	case !binding.ValidID(e.Binding), !slices.Contains(actions, e.Action), !slices.Contains(states, e.State):
		return errors.New("an entry has an unknown member")
	case len(e.Output) > binding.MaxOutput, len(e.Error) > binding.MaxError:
		return errors.New("an entry is too long")
	}
	return nil
}
