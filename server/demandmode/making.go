package demandmode

import (
	"fmt"
	"time"

	"nstance.dev/server/cache"
	"nstance.dev/server/config/document"
	"nstance.dev/server/config/effective"
	"nstance.dev/server/demand"
	"nstance.dev/server/fleet"
)

// making is what machines of a group are made from now, and how old they may become.
type making struct {
	hash    string
	alike   func(infraHash, instanceType string) bool
	expiry  document.Expiry
	windows []document.MaintenanceWindow
}

func makingOf(g *effective.Group, expiry document.Expiry) *making {
	return &making{hash: g.InfraHash, alike: g.MadeLike(), expiry: expiry, windows: g.Rails.MaintenanceWindows}
}

// windowAgain is how often it is asked whether a window is still open.
const windowAgain = time.Minute

// outdated says why a machine is to make room, and when to ask again: for its age, or because it was made from something
// else. Both wait for a maintenance window, but for the age at which a machine has to go.
func (m *making) outdated(row *cache.Instance, now time.Time) (why demand.Reason, next time.Time) {
	reached := func(age document.Duration) bool {
		at := row.Created.Add(age.Std())
		if age > 0 && now.Before(at) && (next.IsZero() || at.Before(next)) {
			next = at
		}
		return age > 0 && !now.Before(at)
	}
	forced, eligible := reached(m.expiry.ForcedAge), reached(m.expiry.EligibleAge)
	switch {
	case forced:
		return demand.ReasonExpiry, time.Time{}
	case eligible:
		why = demand.ReasonExpiry
	case m.hash != "" && row.InfraHash != "" && !m.alike(row.InfraHash, row.InstanceType):
		why = demand.ReasonDrift
	default:
		return "", next
	}
	if len(m.windows) == 0 {
		return why, next
	}
	open, opens := document.OpenWindow(m.windows, now)
	if open {
		opens = now.Add(windowAgain)
	} else {
		why = ""
	}
	if !opens.IsZero() && (next.IsZero() || opens.Before(next)) {
		next = opens
	}
	return why, next
}

// Outdated implements [demandloop.Supply].
func (s *supply) Outdated(row *cache.Instance, now time.Time) (demand.Reason, time.Time) {
	if m := s.makings[row.Group]; m != nil {
		return m.outdated(row, now)
	}
	return "", time.Time{}
}

// Makings implements [demandloop.Supply].
func (s *supply) Makings() map[fleet.GroupID]string {
	all := make(map[fleet.GroupID]string, len(s.makings))
	for id, m := range s.makings {
		all[id] = fmt.Sprintf("%s %v %v", m.hash, m.expiry, m.windows)
	}
	return all
}
