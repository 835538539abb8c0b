package effective

import (
	"slices"

	"nstance.dev/server/config/document"
)

// What the configuration shares out among tenants is a template, a load balancer
// or a subnet pool. For a tenant that may not use one it does not exist (S12): the
// API answers as for a name that nobody has written anywhere.

// MayUseTemplate says whether there is a template of that key for the tenant.
func (c *Config) MayUseTemplate(tenant, key string) bool {
	t, ok := c.Templates[key]
	return ok && c.mayUse(tenant, t.Tenants, c.templateUsers[key])
}

// MayUseLoadBalancer says whether there is a load balancer of that key for the tenant.
func (c *Config) MayUseLoadBalancer(tenant, key string) bool {
	lb, ok := c.LoadBalancers[key]
	return ok && c.mayUse(tenant, lb.Tenants, c.balancerUsers[key])
}

// given says whether the configuration gave a group what it may keep, though its
// tenant could not ask for it: a group that was static goes on with the template and
// the load balancers of its last definition, unless a list of tenants says otherwise.
func (l Layers) given(listed []string, in func(last document.Group) bool) bool {
	return l.Static == nil && l.Entry != nil && l.Entry.Unlocked != nil && len(listed) == 0 && in(l.Entry.Unlocked.Static.Group)
}

// HasTemplate says whether there is the template of the layers for their tenant.
func (c *Config) HasTemplate(l Layers) bool {
	t, ok := c.Templates[l.Template]
	return ok && (c.MayUseTemplate(l.Tenant, l.Template) ||
		l.given(t.Tenants, func(last document.Group) bool { return last.Template == l.Template }))
}

// HasLoadBalancer says whether there is a load balancer for the tenant of the layers.
func (c *Config) HasLoadBalancer(l Layers, key string) bool {
	lb, ok := c.LoadBalancers[key]
	return ok && (c.MayUseLoadBalancer(l.Tenant, key) ||
		l.given(lb.Tenants, func(last document.Group) bool { return slices.Contains(last.LoadBalancers, key) }))
}

// mayUse decides by the list of tenants, and without one by who uses the thing already.
func (c *Config) mayUse(tenant string, listed []string, users tenantSet) bool {
	if len(listed) > 0 {
		return slices.Contains(listed, tenant)
	}
	return !c.SeveralTenants() || c.Administrates(tenant) || users[tenant]
}

// tenantSet are tenants whose static groups use a thing.
type tenantSet map[string]bool

// indexUsers notes which tenants' static groups use which templates and load balancers.
func (c *Config) indexUsers() {
	c.templateUsers, c.balancerUsers = map[string]tenantSet{}, map[string]tenantSet{}
	use := func(users map[string]tenantSet, key, tenant string) {
		if users[key] == nil {
			users[key] = tenantSet{}
		}
		users[key][tenant] = true
	}
	for tenant, groups := range c.Groups {
		for _, g := range groups {
			use(c.templateUsers, g.Template, tenant)
			for _, key := range g.LoadBalancers {
				use(c.balancerUsers, key, tenant)
			}
		}
	}
}

// poolsOf are the pools that dynamic groups of the tenant may use; empty: all.
func (c *Config) poolsOf(tenant string) []string {
	if pools := c.Tenants[tenant].SubnetPools; len(pools) > 0 {
		return pools
	}
	return c.Server.DynamicSubnetPools
}

// MayUsePool says whether dynamic groups of the tenant may use a pool.
func (c *Config) MayUsePool(tenant, pool string) bool {
	_, ok := c.Server.SubnetPools[pool]
	open := c.poolsOf(tenant)
	return ok && (len(open) == 0 || slices.Contains(open, pool))
}

// Visible gives the members of m that a tenant may use.
func Visible[V any](m map[string]V, tenant string, may func(tenant, key string) bool) map[string]V {
	seen := make(map[string]V, len(m))
	for key, value := range m {
		if may(tenant, key) {
			seen[key] = value
		}
	}
	return seen
}

// DigestFor gives a digest of the part of the configuration that a tenant may see: its
// static groups, its quota, and the templates, certificates, load balancers and
// pools that it may use. A change of anything else leaves it equal.
func (c *Config) DigestFor(tenant string) string {
	quota := c.QuotaOf(tenant)
	if c.QuotaSet(tenant).Bytes == nil {
		quota.Bytes = 0 // its share depends on how many others there are
	}
	templates := Visible(c.Templates, tenant, c.MayUseTemplate)
	for key, t := range templates {
		t.Tenants = nil // whom else it is open to
		templates[key] = t
	}
	balancers := Visible(c.LoadBalancers, tenant, c.MayUseLoadBalancer)
	for key, lb := range balancers {
		lb.Tenants = nil
		balancers[key] = lb
	}
	certificates := map[string]hashCertificate{}
	for _, t := range templates {
		for _, f := range t.Files {
			if key, ok := f.Template.(string); ok && f.Kind == document.FileCertificate {
				certificates[key] = certificateInput(c.Certificates[key])
			}
		}
	}
	return digest(map[string]any{
		"groups": c.Groups[tenant], "quota": quota, "defaults": c.Defaults,
		"templates": templates, "load_balancers": balancers, "certificates": certificates,
		"subnet_pools": Visible(c.Server.SubnetPools, tenant, c.MayUsePool),
	})
}
