package effective

import (
	"fmt"
	"iter"
	"slices"
	"time"

	"nstance.dev/protos/identity"
	"nstance.dev/server/config/document"
	"nstance.dev/server/config/groupfile"
	"nstance.dev/server/config/jsonc"
)

// Groups gives what each group should be. A nil file stands for one that is
// missing: the result then has the static groups alone, and the caller must not
// take the others for deleted.
//
// A dynamic entry that no longer fits the configuration, because its template,
// subnet pool or tenant is gone, gives a group that is Blocked, and a problem; the
// other groups are not touched by it. An entry whose name is not a valid one is
// left out, with a problem: nothing can exist under it.
func Groups(cfg *Config, file *groupfile.File) (map[document.GroupKey]*Group, []jsonc.Problem) {
	groups := map[document.GroupKey]*Group{}
	var problems []jsonc.Problem
	for k := range cfg.allGroups(file) {
		if err := validKey(k); err != nil {
			problems = append(problems, cfg.groupProblem(k, err.Error(), "take the entry out of the group file"))
			continue
		}
		groups[k] = nil
	}
	for k := range groups {
		groups[k] = cfg.effective(file, k)
		if why := groups[k].Blocked; why != "" {
			problems = append(problems, cfg.groupProblem(k, why, "put it back, or change or delete the group through the API"))
		}
	}
	slices.SortFunc(problems, func(a, b jsonc.Problem) int {
		return slices.Compare([]string{a.Path, a.Message}, []string{b.Path, b.Message})
	})
	return groups, problems
}

// Group gives what one group should be, as [Groups] does; false if neither
// the configuration nor the file has it.
func (c *Config) Group(file *groupfile.File, key document.GroupKey) (*Group, bool) {
	if _, ok := c.layersOf(file, key); !ok {
		return nil, false
	}
	return c.effective(file, key), true
}

// allGroups yields the groups of the configuration and of the file, in no order: those
// that have an entry beside their definition, twice.
func (c *Config) allGroups(file *groupfile.File) iter.Seq[document.GroupKey] {
	return func(yield func(document.GroupKey) bool) {
		for tenant, byKey := range c.Groups {
			for key := range byKey {
				if !yield(document.GroupKey{Tenant: tenant, Group: key}) {
					return
				}
			}
		}
		if file == nil {
			return
		}
		for tenant, byKey := range file.Groups {
			for key := range byKey {
				if !yield(document.GroupKey{Tenant: tenant, Group: key}) {
					return
				}
			}
		}
	}
}

// layersOf are what a group is made of; false if neither the configuration nor the file
// has it.
func (c *Config) layersOf(file *groupfile.File, k document.GroupKey) (Layers, bool) {
	l := Layers{Tenant: k.Tenant, Key: k.Group}
	if d, ok := file.Group(k.Tenant, k.Group); ok {
		l.Entry, l.Template = &d, d.Template
	}
	if s, ok := c.Groups[k.Tenant][k.Group]; ok {
		l.Static, l.Template = &s, s.Template
	}
	return l, l.Static != nil || l.Entry != nil && validKey(k) == nil
}

// effective gives one group, which must be in the configuration or the file.
func (c *Config) effective(file *groupfile.File, k document.GroupKey) *Group {
	l, _ := c.layersOf(file, k)
	if why := c.blockedBecause(l); why != "" {
		g := &Group{Tenant: k.Tenant, Key: k.Group, Static: l.Static != nil, Dynamic: l.Entry, Blocked: why}
		g.Deleted = l.Entry != nil && l.Entry.DeletedAt != nil && l.Static == nil
		g.Rebuilt, g.DrainTimeout = l.rebuilt(), c.drainTimeout(l)
		return g
	}
	g := c.Merge(l)
	g.Rebuilt = l.rebuilt()
	return g
}

func (l Layers) rebuilt() bool { return l.Entry != nil && l.Entry.Rebuilt != nil }

// drainTimeout is that of a group whatever has become of its template.
func (c *Config) drainTimeout(l Layers) time.Duration {
	switch {
	case l.Static != nil && l.Static.DrainTimeout != nil:
		return l.Static.DrainTimeout.Std()
	case l.Static == nil && l.Entry != nil && l.Entry.DrainTimeout != nil:
		return l.Entry.DrainTimeout.Std()
	}
	return c.Server.DrainTimeout.Std()
}

// blockedBecause says why the layers can't be merged into a group that works, or "".
func (c *Config) blockedBecause(l Layers) string {
	if !c.HasTenant(l.Tenant) {
		return fmt.Sprintf("tenant %q is not configured", l.Tenant)
	}
	if !c.HasTemplate(l) {
		return fmt.Sprintf("template %q is not configured%s", l.Template, c.forTenant(l.Tenant))
	}
	if l.Static != nil {
		return "" // package checks looks at it
	}
	t := c.Templates[l.Template]
	pool := t.SubnetPool
	if l.Entry.SubnetPool != "" {
		pool = l.Entry.SubnetPool
	}
	if _, ok := c.Server.SubnetPools[pool]; !ok {
		return fmt.Sprintf("subnet pool %q is not configured", pool)
	}
	if len(l.Entry.Types()) == 0 && len(t.InstanceType) == 0 && l.Entry.InstanceRequirements == nil {
		return "it has no instance type"
	}
	for _, key := range l.Entry.LoadBalancers {
		if !c.HasLoadBalancer(l, key) {
			return fmt.Sprintf("load balancer %q is not configured%s", key, c.forTenant(l.Tenant))
		}
	}
	return ""
}

// forTenant says for whom a thing is not configured, where that may differ.
func (c *Config) forTenant(tenant string) string {
	if c.SeveralTenants() {
		return " for tenant " + tenant
	}
	return ""
}

func (c *Config) groupProblem(k document.GroupKey, message, remedy string) jsonc.Problem {
	return jsonc.Problem{File: "groups/" + c.Server.Shard + ".jsonc", Path: "groups." + k.Tenant + "." + k.Group, Message: message, Remedy: remedy}
}

func validKey(k document.GroupKey) error {
	if err := identity.ValidateName(k.Tenant); err != nil {
		return fmt.Errorf("tenant: %w", err)
	}
	if err := identity.ValidateName(k.Group); err != nil {
		return fmt.Errorf("group: %w", err)
	}
	return nil
}

// StaticCopy is the copy of the static groups that a leader keeps in the group
// file, for the day when one of them disappears from the configuration.
func StaticCopy(cfg *Config) map[string]map[string]groupfile.StaticGroup {
	copies := make(map[string]map[string]groupfile.StaticGroup, len(cfg.Groups))
	for tenant, groups := range cfg.Groups {
		copies[tenant] = make(map[string]groupfile.StaticGroup, len(groups))
		for key, g := range groups {
			copies[tenant][key] = groupfile.StaticGroup{Group: g}
		}
	}
	return copies
}
