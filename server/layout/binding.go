package layout

import (
	"encoding/json"
	"fmt"
	"maps"
)

// BindingState is how far an instance has come in a cluster that it is meant for. It is kept apart from
// [Status]: package binding says which moves there are.
type BindingState string

// The states of a binding. A record without a binding has none of them: its machine serves nobody.
const (
	BindingIntent      BindingState = "intent"      // it is made for the cluster, or waits to be configured for it
	BindingConfiguring BindingState = "configuring" // it was told to join
	BindingBound       BindingState = "bound"       // its Node was ready
	BindingDraining    BindingState = "draining"    // its work is moved off, and it leaves the cluster
)

// Binding says which cluster an instance serves, and for what. It is written before anything is done that
// it speaks of, and goes with the end of the work, so that the next leader goes on from it.
//
// Copies share Stamps and Drain; replace them instead of changing them.
type Binding struct {
	State   BindingState `json:"state"`
	Cluster string       `json:"cluster"`
	// ID names one joining of one machine; empty until it is told to join.
	ID    string `json:"id"`
	Price int64  `json:"price"` // of an hour when it was bound, in millionths of a dollar
	Since Time   `json:"since"` // in this state
	// BoundAt is when the instance was first meant for the cluster.
	BoundAt Time   `json:"bound_at"`
	Stamps  Stamps `json:"stamps"`
	Drain   *Drain `json:"drain,omitempty"` // set exactly while the state is draining
}

// Purchase is how a machine was bought.
type Purchase struct {
	CapacityType string `json:"capacity_type"`
	Reservation  string `json:"reservation,omitempty"`
}

// Stamps say for which need an instance was bound, by name. A value that its reader does not understand
// is left out by it, and those with names that it does not know stay: neither makes a record unreadable.
type Stamps map[string]json.RawMessage

// UnmarshalJSON implements [json.Unmarshaler]. What is no object is no stamp at all.
func (s *Stamps) UnmarshalJSON(data []byte) error {
	var all map[string]json.RawMessage
	if json.Unmarshal(data, &all) != nil {
		all = nil
	}
	*s = all
	return nil
}

// Set returns the stamps with one more, or another value of one. It changes no copy.
func (s Stamps) Set(name string, value any) Stamps {
	raw, err := json.Marshal(value)
	if err != nil {
		return s
	}
	next := maps.Clone(s)
	if next == nil {
		next = Stamps{}
	}
	next[name] = raw
	return next
}

// Get reads one stamp into the value that into points to. It reports whether there is one that
// fits; if not, nothing is changed.
func (s Stamps) Get(name string, into any) bool {
	raw, ok := s[name]
	return ok && json.Unmarshal(raw, into) == nil
}

// Drain is that an instance is to leave the cluster that it serves, and lives on.
type Drain struct {
	Instruction string `json:"instruction"` // as the operator of the cluster knows it
	StartedAt   Time   `json:"started_at"`
	Deadline    Time   `json:"deadline"` // of the operator's part
	Voluntary   bool   `json:"voluntary"`
	Priority    int32  `json:"priority,omitempty"` // of what takes it, where it is not voluntary
	Reason      string `json:"reason"`
	// LeftAt is when the work had left it, or its time was over: from then on the machine leaves.
	LeftAt Time `json:"left_at,omitzero"`
}

// Failure marks an instance that is of no use any more, whatever its machine does.
type Failure struct {
	Reason string `json:"reason"` // one word in camel case
	Detail string `json:"detail"`
	At     Time   `json:"at"`
}

// check reports why b is no binding that may stand in a record.
func (b *Binding) check() error {
	switch {
	case b == nil:
		return nil
	case b.Cluster == "":
		return fmt.Errorf("member binding: member cluster is missing")
	case (b.Drain != nil) != (b.State == BindingDraining):
		return fmt.Errorf("member binding: member drain goes with the state draining, and the state is %q", b.State)
	}
	switch b.State {
	case BindingIntent, BindingConfiguring, BindingBound, BindingDraining:
		return nil
	}
	return fmt.Errorf("member binding: member state: %q is not intent, configuring, bound or draining", b.State)
}
