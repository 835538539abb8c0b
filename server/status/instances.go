package status

import (
	"time"

	"nstance.dev/protos/identity"
	"nstance.dev/server/cache"
	"nstance.dev/server/fleet"
	"nstance.dev/server/refusal"
)

// maxPage bounds the instances of one answer.
const maxPage = 1000

// Instance is one instance as its row and its agent show it.
type Instance struct {
	cache.Instance

	Status string // in the words of the API
	// Of the row, Hold is set while it is in force.
	Revision     int64  // that of the row, and it also grows from one leader to the next
	ProviderURI  string // how other systems know its machine; empty: it has none yet
	LastSeen     time.Time
	AgentVersion string
	Metrics      []byte // of the last report, as it came

	*Details // nil: they were not asked for
}

// Instance describes one instance by its row.
func (r *Reader) Instance(in cache.Instance) Instance {
	st := Instance{Instance: in, Status: fleet.Status(in.Instance), Revision: r.revision(in.Revision)}
	if in.State.Leaving() || !in.Hold.InForce(r.opts.Now()) {
		st.Hold = fleet.Hold{}
	}
	if in.ProviderID != "" {
		st.ProviderURI = r.ProviderURI(in)
	}
	if h, ok := r.opts.Cache.Health(in.ID); ok {
		st.LastSeen, st.AgentVersion, st.Metrics = h.ReceivedAt, h.AgentVersion, h.Metrics
	}
	return st
}

// ListInstances returns a page of the tenant's instances, oldest first, without
// those that are deleted. The next page begins after the returned token; an
// empty one says that there is none.
func (r *Reader) ListInstances(tenant, after string, size int) ([]Instance, string) {
	if size <= 0 || size > maxPage {
		size = maxPage
	}
	var out []Instance
	for _, in := range r.opts.Cache.Tenant(tenant) { // in the order of ids
		if in.State == fleet.Deleted || in.ID.String() <= after {
			continue
		}
		if len(out) == size {
			return out, out[size-1].ID.String()
		}
		out = append(out, r.Instance(in))
	}
	return out, ""
}

// AllInstances returns every instance of the shard that is not deleted, in the order
// of ids. It is for the process itself: it knows no tenants.
func (r *Reader) AllInstances() []Instance {
	rows := r.opts.Cache.All()
	out := make([]Instance, len(rows))
	for i, in := range rows {
		out[i] = r.Instance(in)
	}
	return out
}

// GetInstance returns the status of one instance with its details; a deleted one is known for a
// while.
func (r *Reader) GetInstance(tenant, id string) (Instance, error) {
	in, err := r.FindInstance(tenant, id)
	if err != nil {
		return Instance{}, err
	}
	return r.Detailed(in), nil
}

// FindInstance returns the row of an instance of the tenant; one of another tenant
// does not exist (S12).
func (r *Reader) FindInstance(tenant, text string) (cache.Instance, error) {
	id, err := identity.ParseID(text)
	if err != nil {
		return cache.Instance{}, refusal.New(refusal.InvalidArgument, "INVALID_ID", "instance_id: %v; ListInstances says which there are", err)
	}
	in, ok := r.opts.Cache.Instance(id)
	if !ok || in.Group.Tenant != tenant {
		return cache.Instance{}, refusal.New(refusal.NotFound, "NOT_FOUND", "instance %q not found", text)
	}
	return in, nil
}
