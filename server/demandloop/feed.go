package demandloop

import (
	"nstance.dev/server/demand"
)

// feed is what the engine is told with its next step.
type feed struct{ events []demand.Event }

func (f *feed) tell(e demand.Event) { f.events = append(f.events, e) }

// move tells of a machine that went from one state to another, by way of those in between where the
// engine has no direct one. It reports whether there is a way.
func (f *feed) move(id string, from, to demand.State, failure demand.Failure) bool {
	way := between(from, to)
	for _, state := range way {
		change := demand.Changed{ID: id, State: state}
		if state == demand.Failed {
			change.Failure = failure
		}
		f.tell(change)
	}
	return from == to || way != nil
}

// between are the states on the shortest way from one to another, with the last; nil: there is none.
func between(from, to demand.State) []demand.State {
	type step struct {
		at   demand.State
		path []demand.State
	}
	seen, open := map[demand.State]bool{from: true}, []step{{at: from}}
	for len(open) > 0 {
		now := open[0]
		open = open[1:]
		for next := demand.Creating; next <= demand.Failed; next++ {
			// Through Failed and Deleting nothing comes back.
			if seen[next] || demand.Move(now.at, next) != nil || next != to && (next == demand.Failed || next == demand.Deleting) {
				continue
			}
			seen[next] = true
			path := append(append([]demand.State(nil), now.path...), next)
			if next == to {
				return path
			}
			open = append(open, step{next, path})
		}
	}
	return nil
}
