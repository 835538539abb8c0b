package config

import (
	"maps"
	"slices"
)

// layers are what a group is made of, the lowest first; nil ones are missing.
type layers struct {
	tenant, key string
	template    string
	static      *Group
	dynamic     *DynamicGroup
	request     *InstanceRequest

	// templateTypes has the instance types be the template's, whatever is above it.
	templateTypes bool
}

// merge lays the layers over each other. Scalars: the highest that is set.
// Args: objects are merged key by key, all else is replaced. Vars: by name.
// User data: the template's or the defaults', never a mixture. Files: the
// template's. A static group keeps its template, pool, args and load balancers
// whatever the dynamic layer says.
func (c *Config) merge(l layers) *EffectiveGroup {
	g := c.lay(l)
	g.seal(c.Certificates)
	return g
}

// lay is merge without the hashes.
func (c *Config) lay(l layers) *EffectiveGroup {
	t := c.Templates[l.template]
	g := &EffectiveGroup{
		Tenant: l.tenant, Key: l.key, Template: l.template, Kind: t.Kind, Arch: t.Arch,
		InstanceTypes: t.InstanceType, AllowedInstanceTypes: t.AllowedInstanceTypes, SubnetPool: t.SubnetPool,
		Args:  mergeObjects(c.Defaults.Args, t.Args),
		Vars:  mergeVars(c.Defaults.Vars, t.Vars),
		Files: t.Files, DrainTimeout: c.Server.DrainTimeout.Std(), Rails: c.Server.Rails,
		Static: l.static != nil, Dynamic: l.dynamic,
	}
	if u := cmpPtr(t.Userdata, c.Defaults.Userdata); u != nil {
		g.Userdata = *u
	}
	if t.Size != nil {
		g.Size = *t.Size
	}
	if l.static != nil {
		g.applyStatic(l.static)
	}
	if l.dynamic != nil {
		g.applyDynamic(l.dynamic, l.static != nil)
	}
	if l.request != nil {
		g.applyRequest(l.request)
	}
	if l.templateTypes {
		g.InstanceTypes = t.InstanceType
	}
	g.Outranked = c.rules.outranked(c.sizings(l))
	g.Subnets = c.Server.SubnetPools[g.SubnetPool]
	g.Traits = c.rules.traits(g.InstanceTypes, g.Args)
	return g
}

func (g *EffectiveGroup) applyStatic(s *Group) {
	setInt(&g.Size, s.Size)
	g.StaticSize = s.Size
	g.override(s.InstanceType, s.SubnetPool, s.LoadBalancers)
	g.Args = mergeObjects(g.Args, s.Args)
	g.Vars = mergeVars(g.Vars, s.Vars)
	if s.DrainTimeout != nil {
		g.DrainTimeout = s.DrainTimeout.Std()
	}
	g.Rails = g.Rails.with(s.Rails)
}

func (g *EffectiveGroup) applyDynamic(d *DynamicGroup, locked bool) {
	setInt(&g.Size, d.Size)
	g.override(d.types(), "", nil)
	g.Vars = mergeVars(g.Vars, d.Vars)
	if locked {
		return
	}
	g.override(nil, d.SubnetPool, d.LoadBalancers)
	g.Args = mergeObjects(g.Args, d.Args)
	if d.DrainTimeout != nil {
		g.DrainTimeout = d.DrainTimeout.Std()
	}
	g.Rails = g.Rails.with(d.Rails)
	if d.DeletedAt != nil {
		g.Deleted, g.Size = true, 0
	}
}

func (g *EffectiveGroup) applyRequest(r *InstanceRequest) {
	var types []string
	if r.InstanceType != "" {
		types = []string{r.InstanceType}
	}
	g.override(types, r.SubnetPool, r.LoadBalancers)
	g.Vars = mergeVars(g.Vars, r.Vars)
}

func (g *EffectiveGroup) override(types []string, pool string, loadBalancers []string) {
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

// types are the instance types that the entry sets, if any.
func (g *DynamicGroup) types() []string {
	switch {
	case len(g.InstanceTypes) > 0:
		return g.InstanceTypes
	case g.InstanceType != "":
		return []string{g.InstanceType}
	}
	return nil
}

// with gives the rails with those of a group over them.
func (r Rails) with(over *GroupRails) Rails {
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
