package effective

import (
	"maps"
	"slices"

	"nstance.dev/server/config/document"
	"nstance.dev/server/config/groupfile"
)

// Layers are what a group is made of, the lowest first; nil ones are missing. Under them are
// the defaults of the configuration.
type Layers struct {
	Tenant, Key string           // of the group
	Template    string           // key of the template
	Static      *document.Group  // its definition in the configuration
	Entry       *groupfile.Entry // what the API has set for it
	Request     *InstanceRequest // what is asked for one instance

	// TemplateTypes has the instance types be the template's, whatever is above it.
	TemplateTypes bool
}

// Merge lays the layers over each other. Scalars: the highest that is set.
// Args: objects are merged key by key, all else is replaced. Vars: by name.
// User data: the template's or the defaults', never a mixture. Files: the
// template's. A static group keeps its template, pool, args and load balancers
// whatever the dynamic layer says.
func (c *Config) Merge(l Layers) *Group {
	g := c.Lay(l)
	g.seal(c.Certificates)
	return g
}

// Lay is [Config.Merge] without the hashes.
func (c *Config) Lay(l Layers) *Group {
	t := c.Templates[l.Template]
	g := &Group{
		Tenant: l.Tenant, Key: l.Key, Template: l.Template, Kind: t.Kind, Arch: t.Arch,
		InstanceTypes: t.InstanceType, AllowedInstanceTypes: t.AllowedInstanceTypes, SubnetPool: t.SubnetPool,
		Args:  mergeObjects(c.Defaults.Args, t.Args),
		Vars:  mergeVars(c.Defaults.Vars, t.Vars),
		Files: t.Files, DrainTimeout: c.Server.DrainTimeout.Std(), Rails: c.Server.Rails,
		Static: l.Static != nil, Dynamic: l.Entry,
	}
	if u := cmpPtr(t.Userdata, c.Defaults.Userdata); u != nil {
		g.Userdata = *u
	}
	if t.Size != nil {
		g.Size = *t.Size
	}
	g.Node, g.Reuse = t.Node.Over(document.Node{}), t.Reuse == document.ReuseAny
	g.Machine = t.Machine.On()
	if l.Static != nil {
		g.applyStatic(l.Static)
	}
	if l.Entry != nil {
		g.applyDynamic(l.Entry, l.Static != nil)
	}
	if g.Demand != nil {
		g.Size = 0
	}
	if l.Request != nil {
		g.applyRequest(l.Request)
	}
	if l.TemplateTypes {
		g.InstanceTypes = t.InstanceType
	}
	g.Outranked = outranked(c.Rules.SizeArgs(), c.sizings(l))
	g.Subnets = c.Server.SubnetPools[g.SubnetPool]
	g.Traits = c.Rules.Traits(g.InstanceTypes, g.Args)
	return g
}

func (g *Group) applyStatic(s *document.Group) {
	setInt(&g.Size, s.Size)
	g.StaticSize = s.Size
	g.override(s.InstanceType, s.SubnetPool, s.LoadBalancers)
	g.Args = mergeObjects(g.Args, s.Args)
	g.Vars = mergeVars(g.Vars, s.Vars)
	if s.DrainTimeout != nil {
		g.DrainTimeout = s.DrainTimeout.Std()
	}
	g.Rails = railsOver(g.Rails, s.Rails)
	g.demand(s.Mode, s.Demand, s.InstanceRequirements, s.Node)
}

// demand takes over what a layer says that only groups of mode demand have, and what their Nodes
// will be.
func (g *Group) demand(mode string, d *document.Demand, r *document.InstanceRequirements, n *document.Node) {
	g.Node = n.Over(g.Node)
	if mode != document.ModeDemand {
		return
	}
	g.Demand = d.Complete()
	if r != nil {
		g.Requirements, g.InstanceTypes = r, nil
	}
}

func (g *Group) applyDynamic(d *groupfile.Entry, locked bool) {
	setInt(&g.Size, d.Size)
	if types := d.Types(); len(types) > 0 {
		g.Requirements = nil // what the API sets counts instead
		g.override(types, "", nil)
	}
	g.Vars = mergeVars(g.Vars, d.Vars)
	if locked {
		return
	}
	g.override(nil, d.SubnetPool, d.LoadBalancers)
	g.Args = mergeObjects(g.Args, d.Args)
	if d.DrainTimeout != nil {
		g.DrainTimeout = d.DrainTimeout.Std()
	}
	g.Rails = railsOver(g.Rails, d.Rails)
	g.demand(d.Mode, d.Demand, d.InstanceRequirements, d.Node)
	if d.DeletedAt != nil {
		g.Deleted, g.Size = true, 0
	}
}

func (g *Group) applyRequest(r *InstanceRequest) {
	var types []string
	if r.InstanceType != "" {
		types = []string{r.InstanceType}
	}
	g.override(types, r.SubnetPool, r.LoadBalancers)
	g.Vars = mergeVars(g.Vars, r.Vars)
}

func (g *Group) override(types []string, pool string, loadBalancers []string) {
	if len(types) > 0 {
		g.InstanceTypes = types
	}
	if pool != "" {
		g.SubnetPool = pool
	}
	if loadBalancers != nil {
		g.LoadBalancers = loadBalancers
	}
}

// railsOver gives the rails with those of a group over them.
func railsOver(r document.Rails, over *document.GroupRails) document.Rails {
	if over == nil {
		return r
	}
	if over.MaxUnavailable != nil {
		r.MaxUnavailable = *over.MaxUnavailable
	}
	if over.MaxDeleteShare != nil {
		r.MaxDeleteShare = *over.MaxDeleteShare
	}
	setInt(&r.NeverRegisteredPerHour, over.NeverRegisteredPerHour)
	if over.MaintenanceWindows != nil {
		r.MaintenanceWindows = over.MaintenanceWindows
	}
	return r
}

func setInt(into, value *int) {
	if value != nil {
		*into = *value
	}
}

func cmpPtr[T any](pointers ...*T) *T {
	i := slices.IndexFunc(pointers, func(p *T) bool { return p != nil })
	if i < 0 {
		return nil
	}
	return pointers[i]
}

// mergeObjects gives high laid over low: where both have an object it goes on
// inside, else high wins. Neither argument is changed; unchanged parts are
// shared with them.
func mergeObjects(low, high map[string]any) map[string]any {
	merged := make(map[string]any, len(low)+len(high))
	maps.Copy(merged, low)
	for key, value := range high {
		below, okLow := merged[key].(map[string]any)
		above, okHigh := value.(map[string]any)
		if okLow && okHigh {
			value = mergeObjects(below, above)
		}
		merged[key] = value
	}
	return merged
}

func mergeVars(low, high map[string]string) map[string]string {
	merged := make(map[string]string, len(low)+len(high))
	maps.Copy(merged, low)
	maps.Copy(merged, high)
	return merged
}
