package demandsim

import (
	"encoding/json"
	"fmt"
	"time"
)

// line is one event of a trace. Its keys are in the order of the alphabet, and it has no float
// and no wall time: equal runs have byte-equal traces.
type line struct {
	Class   string `json:"class,omitempty"`
	Cluster string `json:"cluster,omitempty"`
	Cycle   int    `json:"cycle"`
	Kind    string `json:"kind"`
	Machine string `json:"machine,omitempty"`
	Need    string `json:"need,omitempty"`
	Reason  string `json:"reason,omitempty"`
	T       int64  `json:"t"` // milliseconds since the start
}

// note adds an event to the trace.
func (w *world) note(l line) {
	l.T, l.Cycle = w.now.Sub(epoch).Milliseconds(), w.cycles
	text, err := json.Marshal(l)
	if err != nil {
		panic(fmt.Sprintf("a line of a trace is texts and numbers: %v", err))
	}
	w.trace = append(w.trace, string(text))
	w.events++
}

// notef adds an event with a reason alone.
func (w *world) notef(kind, reason string, args ...any) {
	w.note(line{Kind: kind, Reason: fmt.Sprintf(reason, args...)})
}

// epoch is when every world begins.
var epoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
