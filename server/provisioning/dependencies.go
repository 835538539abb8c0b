package provisioning

import (
	"context"
	"maps"
	"slices"
	"sync"

	"nstance.dev/server/fleet"
)

// dependencies are what has to be looked up before a machine can be made: the room in a
// subnet, an image, user data that stands elsewhere. A group waits for its lookups
// without a worker (L7): its creates are blocked, and it is reconciled again when the
// last one is done.
type dependencies struct {
	found func(fleet.GroupID) // the group has all its dependencies

	mu      sync.Mutex
	open    map[string]*lookup
	waiting map[fleet.GroupID]map[string]string // names of dependencies, and what is waited for
}

type lookup struct {
	done  chan struct{} // closed when the dependency is known
	begun bool
}

// dependency is one thing that has to be looked up.
type dependency struct {
	name string
	what string // is waited for, for people

	// lookUp begins a lookup and does not wait for it: whoever looks up calls done. Nil: it
	// is looked up anyway; then known says whether that has happened.
	lookUp func()
	known  func() bool
}

func newDependencies(found func(fleet.GroupID)) *dependencies {
	return &dependencies{found: found, open: map[string]*lookup{}, waiting: map[fleet.GroupID]map[string]string{}}
}

// lookUp begins a lookup unless it is under way. What it returns is closed when the
// dependency is known.
func (d *dependencies) lookUp(n dependency) <-chan struct{} {
	d.mu.Lock()
	done, begins := d.begin(n)
	d.mu.Unlock()
	if begins {
		n.lookUp()
	}
	return done
}

// begin notes that a dependency is waited for, and reports whether it is to be looked up.
// The caller holds mu.
func (d *dependencies) begin(n dependency) (done <-chan struct{}, begins bool) {
	in := d.open[n.name]
	if in == nil {
		in = &lookup{done: make(chan struct{})}
		d.open[n.name] = in
	}
	begins = n.lookUp != nil && !in.begun
	in.begun = in.begun || begins
	return in.done, begins
}

// addWaiting records that a group waits for what is missing, and begins the lookups.
func (d *dependencies) addWaiting(group fleet.GroupID, missing []dependency) {
	var begun []dependency
	d.mu.Lock()
	for _, n := range missing {
		if d.waiting[group] == nil {
			d.waiting[group] = map[string]string{}
		}
		d.waiting[group][n.name] = n.what
		if _, begins := d.begin(n); begins {
			begun = append(begun, n)
		}
	}
	d.mu.Unlock()
	for _, n := range begun {
		n.lookUp()
	}
	d.settle(missing)
}

// settle ends lookups that were done just before they were waited for.
func (d *dependencies) settle(missing []dependency) {
	for _, n := range missing {
		if n.known != nil && n.known() {
			d.done(n.name)
		}
	}
}

// awaitAll blocks until all that is missing is known, or ctx ends.
func (d *dependencies) awaitAll(ctx context.Context, missing []dependency) error {
	var lookups []<-chan struct{}
	for _, n := range missing {
		lookups = append(lookups, d.lookUp(n))
	}
	d.settle(missing)
	for _, done := range lookups {
		select {
		case <-done:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// done says that a lookup has ended. Groups that wait for nothing else are reconciled.
func (d *dependencies) done(name string) {
	d.mu.Lock()
	if in := d.open[name]; in != nil {
		close(in.done)
		delete(d.open, name)
	}
	var ready []fleet.GroupID
	for group, names := range d.waiting {
		if _, waits := names[name]; !waits {
			continue
		}
		if delete(names, name); len(names) == 0 {
			delete(d.waiting, group)
			ready = append(ready, group)
		}
	}
	d.mu.Unlock()
	for _, group := range ready {
		d.found(group)
	}
}

// blocked says why a group's creates wait, while they do.
func (d *dependencies) blocked(group fleet.GroupID) fleet.Block {
	d.mu.Lock()
	defer d.mu.Unlock()
	names := d.waiting[group]
	if len(names) == 0 {
		return fleet.Block{}
	}
	first := slices.Min(slices.Collect(maps.Values(names)))
	return fleet.Block{Why: "waiting for " + first, By: fleet.BlockerUnproven}
}
