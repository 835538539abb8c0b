package config

import (
	"fmt"
	"iter"
	"slices"
	"time"

	"nstance.dev/protos/identity"
)

// Effective gives what each group should be. A nil file stands for one that is
// missing: the result then has the static groups alone, and the caller must not
// take the others for deleted.
//
// A dynamic entry that no longer fits the configuration, because its template,
// subnet pool or tenant is gone, gives a group that is Held, and a problem; the
// other groups are not touched by it. An entry whose name is not a valid one is
// left out, with a problem: nothing can exist under it.
func Effective(cfg *Config, file *GroupFile) (map[GroupKey]*EffectiveGroup, []Problem) {
	groups := map[GroupKey]*EffectiveGroup{}
	var problems []Problem
	for k := range cfg.allGroups(file) {
		if err := validKey(k); err != nil {
			problems = append(problems, cfg.groupProblem(k, err.Error(), "take the entry out of the group file"))
			continue
		}
		groups[k] = nil
	}
	for k := range groups {
		groups[k] = cfg.effective(file, k)
		if held := groups[k].Held; held != "" {
			problems = append(problems, cfg.groupProblem(k, held, "put it back, or change or delete the group through the API"))
		}
	}
	slices.SortFunc(problems, func(a, b Problem) int {
		return slices.Compare([]string{a.Path, a.Message}, []string{b.Path, b.Message})
	})
	return groups, problems
}

// Group gives what one group should be, as [Effective] does; false if neither
// the configuration nor the file has it.
func (c *Config) Group(file *GroupFile, key GroupKey) (*EffectiveGroup, bool) {
	if _, ok := c.layersOf(file, key); !ok {
		return nil, false
	}
	return c.effective(file, key), true
}

// allGroups yields the groups of the configuration and of the file, in no order: those
// that have an entry beside their definition, twice.
func (c *Config) allGroups(file *GroupFile) iter.Seq[GroupKey] {
	return func(yield func(GroupKey) bool) {
		for tenant, byKey := range c.Groups {
			for key := range byKey {
				if !yield(GroupKey{tenant, key}) {
					return
				}
			}
		}
		if file == nil {
			return
		}
		for tenant, byKey := range file.Groups {
			for key := range byKey {
				if !yield(GroupKey{tenant, key}) {
					return
				}
			}
		}
	}
}

// layersOf are what a group is made of; false if neither the configuration nor the file
// has it.
func (c *Config) layersOf(file *GroupFile, k GroupKey) (layers, bool) {
	l := layers{tenant: k.Tenant, key: k.Group}
	if d, ok := file.Group(k.Tenant, k.Group); ok {
		l.dynamic, l.template = &d, d.Template
	}
	if s, ok := c.Groups[k.Tenant][k.Group]; ok {
		l.static, l.template = &s, s.Template
	}
	return l, l.static != nil || l.dynamic != nil && validKey(k) == nil
}

// effective gives one group, which must be in the configuration or the file.
func (c *Config) effective(file *GroupFile, k GroupKey) *EffectiveGroup {
	l, _ := c.layersOf(file, k)
	if held := c.unfit(l); held != "" {
		g := &EffectiveGroup{Tenant: k.Tenant, Key: k.Group, Static: l.static != nil, Dynamic: l.dynamic, Held: held}
		g.Deleted = l.dynamic != nil && l.dynamic.DeletedAt != nil && l.static == nil
		g.Rebuilt, g.DrainTimeout = l.rebuilt(), c.drainTimeout(l)
		return g
	}
	g := c.merge(l)
	g.Rebuilt = l.rebuilt()
	return g
}

func (l layers) rebuilt() bool { return l.dynamic != nil && l.dynamic.Rebuilt != nil }

// drainTimeout is that of a group whatever has become of its template.
func (c *Config) drainTimeout(l layers) time.Duration {
	switch {
	case l.static != nil && l.static.DrainTimeout != nil:
		return l.static.DrainTimeout.Std()
	case l.static == nil && l.dynamic != nil && l.dynamic.DrainTimeout != nil:
		return l.dynamic.DrainTimeout.Std()
	}
	return c.Server.DrainTimeout.Std()
}

// unfit says why the layers can't be merged into a group that works, or "".
func (c *Config) unfit(l layers) string {
	if !c.HasTenant(l.tenant) {
		return fmt.Sprintf("tenant %q is not configured", l.tenant)
	}
	if !c.hasTemplate(l) {
		return fmt.Sprintf("template %q is not configured%s", l.template, c.forTenant(l.tenant))
	}
	if l.static != nil {
		return "" // checked by Load
	}
	t := c.Templates[l.template]
	pool := t.SubnetPool
	if l.dynamic.SubnetPool != "" {
		pool = l.dynamic.SubnetPool
	}
	if _, ok := c.Server.SubnetPools[pool]; !ok {
		return fmt.Sprintf("subnet pool %q is not configured", pool)
	}
	if len(l.dynamic.types()) == 0 && len(t.InstanceType) == 0 {
		return "it has no instance type"
	}
	for _, key := range l.dynamic.LoadBalancers {
		if !c.hasLoadBalancer(l, key) {
			return fmt.Sprintf("load balancer %q is not configured%s", key, c.forTenant(l.tenant))
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

func (c *Config) groupProblem(k GroupKey, message, remedy string) Problem {
	return Problem{File: "groups/" + c.Server.Shard + ".jsonc", Path: "groups." + k.Tenant + "." + k.Group, Message: message, Remedy: remedy}
}

func validKey(k GroupKey) error {
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
func StaticCopy(cfg *Config) map[string]map[string]StaticGroup {
	copies := make(map[string]map[string]StaticGroup, len(cfg.Groups))
	for tenant, groups := range cfg.Groups {
		copies[tenant] = make(map[string]StaticGroup, len(groups))
		for key, g := range groups {
			copies[tenant][key] = StaticGroup{Group: g}
		}
	}
	return copies
}
