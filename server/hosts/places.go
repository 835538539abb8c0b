package hosts

import (
	"sync"

	"nstance.dev/protos/identity"
)

// mostPlaces is how many operations are remembered with their instances.
const mostPlaces = 4096

// places are the instances of operations, so that not every machine of a tenant has to be looked at. What is forgotten is
// looked for.
type places struct {
	mu sync.Mutex
	of map[string]identity.ID
}

func (p *places) note(id string, at identity.ID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.of == nil || len(p.of) >= mostPlaces {
		p.of = map[string]identity.ID{}
	}
	p.of[id] = at
}

func (p *places) at(id string) (identity.ID, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	at, noted := p.of[id]
	return at, noted
}
