package sim

import (
	"fmt"
	"sync/atomic"
	"time"
)

// Progress says how far a run has come, also from outside of its bubble and while it
// goes on. The zero value is one that has not begun.
type Progress struct {
	events atomic.Int64 // calls, messages and what the plan did
	at     atomic.Int64 // when the last of them was, in nanoseconds since the start
}

func (p *Progress) String() string {
	return fmt.Sprintf("%v of its own time and %d events", p.At(), p.events.Load())
}

// At is how far it has come in its own time.
func (p *Progress) At() time.Duration { return time.Duration(p.at.Load()) }

// Reach notes how far a run has come in its own time, and counts events: for worlds that are not
// those of this package. A nil Progress notes nothing.
func (p *Progress) Reach(at time.Duration, events int) {
	if p != nil {
		p.events.Add(int64(events))
		p.at.Store(int64(at))
	}
}

// event counts something that happens, and notes what it is.
func (w *world) event(format string, args ...any) {
	w.progress.events.Add(1)
	w.progress.at.Store(int64(time.Since(w.start)))
	w.trace(format, args...)
}

// trace notes something for the history alone.
func (w *world) trace(format string, args ...any) {
	line := fmt.Sprintf("%018.9f ", time.Since(w.start).Seconds()) + fmt.Sprintf(format, args...)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.traced = append(w.traced, line)
}
