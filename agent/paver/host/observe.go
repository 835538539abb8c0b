package host

import (
	"context"
	"strings"
	"time"

	"nstance.dev/agent/paver/journal"
	"nstance.dev/agent/paver/transition"
)

// Seen is what was seen of a slot.
type Seen struct {
	transition.Observed
	StartedAt time.Time
	Exists    bool // there is a tree
}

// Observe looks at both slots. Only if markers is set it finds out what could be used again, which
// takes reading a tree.
func (h *Host) Observe(ctx context.Context, markers bool) (map[journal.Slot]Seen, error) {
	all := map[journal.Slot]Seen{}
	for _, s := range journal.Slots() {
		state, err := h.opts.Runner.State(ctx, s)
		if err != nil {
			return nil, err
		}
		seen := Seen{Observed: transition.Observed{Phase: state.Phase, BootID: state.BootID}, StartedAt: state.StartedAt}
		if state.Phase == journal.Running && state.BootID != "" {
			seen.Kubelet = h.kubeletMayRun(ctx, s)
		}
		seen.Exists = h.slots.Exists(s)
		if markers && state.Phase != journal.Running && seen.Exists {
			if m, ok := h.slots.Marker(ctx, s); ok {
				seen.Reusable = m.Hash
			}
		}
		all[s] = seen
	}
	return all, nil
}

// kubeletMayRun is true unless the machine's systemd says that its kubelet does not, and will not.
func (h *Host) kubeletMayRun(ctx context.Context, s journal.Slot) bool {
	ctx, cancel := context.WithTimeout(ctx, kubeletLimit)
	defer cancel()
	out, err := h.opts.Runner.Exec(ctx, s, "systemctl", "is-active", kubelet)
	if err != nil {
		return true
	}
	switch strings.TrimSpace(string(out.Text)) {
	case "inactive", "failed", "unknown":
		return false
	}
	return true
}
