package serve

import (
	"context"
	"time"

	"nstance.dev/server/pki"
	"nstance.dev/server/shard"
)

// Serving is a server that leads its shard, as whoever runs it in the same
// process sees it.
type Serving struct {
	Term  uint64
	Addrs struct{ Health, Registration, Operator, Agent string } // host:port

	reign *shard.Reign
	keys  *keyring
}

// Authority is the cluster's, which says who may operate it.
func (s *Serving) Authority() *pki.Authority { return s.keys.current().Authority }

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
	for _, st := range s.reign.Instances() {
		m := Machine{
			ID: st.InstanceId, Tenant: st.Tenant, Group: st.Group, Status: st.Status,
			Reason: st.GetCondemned().GetReason(), ProviderID: st.ProviderInstanceId, Created: st.CreatedAt.AsTime(),
		}
		if st.LastSeen != nil {
			m.LastSeen = st.LastSeen.AsTime()
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
	changed, stop := s.reign.Changed()
	defer stop()
	for {
		what()
		select {
		case <-ctx.Done():
			return
		case <-s.reign.Context().Done():
			return
		case <-changed:
		case <-ticker.C:
		}
	}
}

// announce tells the owner of the process when the shard is served.
func (p *process) announce(ctx context.Context) {
	if p.opts.OnServing == nil {
		return
	}
	reign, err := p.shard.WaitForReign(ctx)
	if err != nil {
		return
	}
	s := &Serving{Term: reign.Term(), reign: reign, keys: p.keys}
	adv := p.ls.advertised
	s.Addrs.Health, s.Addrs.Registration, s.Addrs.Operator, s.Addrs.Agent = adv.Health, adv.Registration, adv.Operator, adv.Agent
	p.opts.OnServing(ctx, s)
}
