package fleet

import (
	"fmt"
	"time"
)

const (
	brakeFloor = 3                // this many may always be missing at once
	brakeShare = 4                // or one in this many of those that should be there
	brakeAgain = 30 * time.Second // until a second listing counts
)

// brake raises the alarm if the listing lacks, without a bad status, more than
// max(3, 25%) of the machines that a listing has to show: those of live instances
// and those that are being drained. What its own Get has confirmed to be gone
// counts no more, so the brake comes off as the loss is proved machine by machine.
func (c *collector) brake(known, absent []Known) {
	lost, expected := 0, 0
	for _, k := range known {
		if hasVM(k) && c.expected(k) {
			expected++
		}
	}
	for _, k := range absent {
		if hasVM(k) {
			lost++
		}
	}
	if lost > max(brakeFloor, expected/brakeShare) {
		c.out.Alarm = fmt.Sprintf("the provider's listing lacks %d of %d machines that should be there: nothing is deleted until each is confirmed", lost, expected)
	}
}

// hasVM reports whether the instance's VM was there at some time, and nothing
// but a listing says that it is not there any more. One whose agent is silent
// counts too: who is cut off from its agents may be cut off from the truth.
func hasVM(k Known) bool {
	return k.State.Live() && (k.Power != NoVM || k.State.Registered()) || k.silent() || k.draining()
}

// draining reports whether the instance has to go and its VM is still in use, as far as
// anybody knows: its drain takes minutes, and a listing that lacks it must not end that
// (S20). After a change of leader nothing is known of a VM but that its drain began.
func (k Known) draining() bool {
	switch k.State {
	case Condemned:
		return k.Power == Up
	case Draining:
		return k.Power != Down && k.Power != Gone
	default:
		return false
	}
}

// silent reports whether the instance is sick for another reason than its VM.
func (k Known) silent() bool { return k.State.Sick() && k.Power == Up }

// missLive reports the absence of a machine that should be there: at once in ordinary times;
// under the brake only when a second listing, 30 s after the first, lacks it
// too, and then together with the order to ask for this very machine.
func (c *collector) missLive(k Known) {
	first, again := c.last.absent[k.ID]
	if !again {
		first = c.l.At
	}
	c.next.absent[k.ID] = first
	if c.out.Alarm == "" {
		c.out.Absent = append(c.out.Absent, k.ID)
		return
	}
	if c.l.At.Sub(first) >= brakeAgain {
		c.out.Confirm = append(c.out.Confirm, k.ID)
	}
}
