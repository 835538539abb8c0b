package checks

import (
	"nstance.dev/server/config/document"
	"nstance.dev/server/config/jsonc"
)

func (c machineCheck) groups(path jsonc.Path) {
	sorted(c.cfg.Groups, func(tenant string, groups map[string]document.Group) {
		if !c.cfg.HasTenant(tenant) && !c.silent(section("tenant")) {
			c.addKey(path.Key(tenant), "there is no tenant "+jsonc.Quoted(tenant), "add it to tenants, or move its groups")
		}
		sorted(groups, func(key string, g document.Group) { c.group(path.Key(tenant).Key(key), key, g) })
	})
}

func (c machineCheck) group(path jsonc.Path, key string, g document.Group) {
	c.name(path, key)
	c.size(path.Key("size"), g.Size)
	var t document.Template
	if c.required(path.Key("template"), g.Template, "the key of a template") && reference(c.report, path.Key("template"), "template", g.Template, c.cfg.Templates) {
		t = c.cfg.Templates[g.Template]
		if len(g.InstanceType) == 0 && len(t.InstanceType) == 0 && g.InstanceRequirements == nil {
			c.add(path.Key("instance_type"), "required, because the template has none", "write one here or in the template")
		}
		if g.SubnetPool == "" && t.SubnetPool == "" {
			c.add(path.Key("subnet_pool"), "required, because the template has none", "write one here or in the template")
		}
	}
	c.instanceTypes(path.Key("instance_type"), g.InstanceType, t.Arch)
	c.demandGroup(path, g, t)
	if g.SubnetPool != "" {
		reference(c.report, path.Key("subnet_pool"), "subnet pool", g.SubnetPool, c.cfg.Server.SubnetPools)
	}
	c.unique(path.Key("load_balancers"), g.LoadBalancers)
	for i, lb := range g.LoadBalancers {
		c.groupLoadBalancer(path.Key("load_balancers").Index(i), lb)
	}
	c.vars(path.Key("vars"), g.Vars)
	c.args(path.Key("args"), g.Args)
	if r := g.Rails; r != nil {
		if r.NeverRegisteredPerHour != nil {
			c.atLeastOne(path.Key("rails").Key("never_registered_per_hour"), *r.NeverRegisteredPerHour)
		}
		c.windows(path.Key("rails").Key("maintenance_windows"), r.MaintenanceWindows)
	}
}

func (c machineCheck) groupLoadBalancer(path jsonc.Path, key string) {
	if !reference(c.report, path, "load balancer", key, c.cfg.LoadBalancers) {
		return
	}
	if lb, kind := c.cfg.LoadBalancers[key], c.cfg.Server.Provider.Kind; kind != "" && lb.Provider != "" && lb.Provider != kind {
		c.add(path, jsonc.Quoted(key)+" is a load balancer of "+lb.Provider, "the shard's provider is "+kind)
	}
}
