package serve

import (
	"context"
	"time"

	"nstance.dev/server/keyring"
	"nstance.dev/server/pki"
	"nstance.dev/server/shard"
)

// Serving is a server that leads its shard, as whoever runs it in the same
// process sees it.
type Serving struct {
	Term  uint64
	Addrs struct{ Health, Registration, Operator, Agent string } // host:port

	term *shard.Term
	keys *keyring.Keyring
}

// Authority is the cluster's, which says who may operate it.
func (s *Serving) Authority() *pki.Authority { return s.keys.Current().Authority }

// Machine is one row of [Serving.Machines].
type Machine struct {
	ID         string
	Tenant     string
	Group      string
	Status     string // as the API says it
	Reason     string // why it is to go; empty: it is not
	ProviderID string
	Created    time.Time
	LastSeen   time.Time // of the last report; zero: none yet
}

// Machines returns the instances of every tenant that are not deleted, oldest
// first.
func (s *Serving) Machines() []Machine {
	var out []Machine
	for _, st := range s.term.Status().AllInstances() {
		m := Machine{
			ID: st.ID.String(), Tenant: st.Group.Tenant, Group: st.Group.Name, Status: st.Status,
			Reason: string(st.Removal.Reason), ProviderID: st.ProviderID, Created: st.Created, LastSeen: st.LastSeen,
		}
		out = append(out, m)
	}
	return out
}

// Changes calls what after every change of an instance, and at least once a
// second, until ctx ends. It returns when the leadership has ended.
func (s *Serving) Changes(ctx context.Context, what func()) {
	ticker := time.NewTicker(time.Second)
	defer ticker.Stop()
	changed, stop := s.term.Events().Changed()
	defer stop()
	for {
		what()
		select {
		case <-ctx.Done():
			return
		case <-s.term.Context().Done():
			return
		case <-changed:
		case <-ticker.C:
		}
	}
}
