package checks

import (
	"slices"
	"strings"

	"nstance.dev/server/config/document"
	"nstance.dev/server/config/effective"
	"nstance.dev/server/config/jsonc"
)

// block reports what a part of the document says is wrong with itself.
func (c *report) block(path jsonc.Path, problems []document.Problem) {
	for _, p := range problems {
		c.add(within(path, p.At), p.Message, p.Remedy)
	}
}

// within is the place that names and indices lead to.
func within(path jsonc.Path, steps []any) jsonc.Path {
	for _, step := range steps {
		if i, ok := step.(int); ok {
			path = path.Index(i)
		} else {
			path = path.Key(step.(string))
		}
	}
	return path
}

// demandGroup looks at what only one of the two modes of a group has.
func (c machineCheck) demandGroup(path jsonc.Path, g document.Group, t document.Template) {
	if c.oneOf(path.Key("mode"), g.Mode, document.ModeFixed, document.ModeDemand) && !g.Demands() {
		const what, remedy = "has no meaning in a group of fixed size", `take it out, or write "mode": "demand"`
		if g.Demand != nil {
			c.addKey(path.Key("demand"), what, remedy)
		}
		if g.InstanceRequirements != nil {
			c.addKey(path.Key("instance_requirements"), what, remedy)
		}
	}
	if g.Demands() && g.Size != nil {
		c.addKey(path.Key("size"), "a group of mode demand has no size: it follows from what is needed", "take it out, and bound the group by demand.min and demand.max")
	}
	if g.InstanceRequirements != nil && len(g.InstanceType) > 0 {
		c.addKey(path.Key("instance_requirements"), "the group has instance_type as well", "take one of the two out")
	}
	c.block(path.Key("demand"), g.Demand.Problems())
	if g.Demand != nil {
		for i := range g.Demand.Disruption {
			if nodes := path.Key("demand").Key("disruption").Index(i).Key("nodes"); !c.doc.Has(nodes) {
				c.add(nodes, "required", `write how many may drain at once, a number or a share such as "10%"; 0 is none`)
			}
		}
	}
	c.block(path.Key("instance_requirements"), g.InstanceRequirements.Problems(t.Arch))
	c.block(path.Key("node"), g.Node.Problems())
}

// demandMerged looks at a group of mode demand with all its layers.
func (c machineCheck) demandMerged(tenant, key, template string, merged *effective.Group) {
	for _, p := range c.cfg.DemandProblems(merged) {
		c.add(c.origin(tenant, key, template, p.At), "for group "+tenant+"/"+key+": "+p.Message, p.Remedy)
	}
}

// demand looks at what the shard's groups of mode demand share.
func (c serverCheck) demand(path jsonc.Path) {
	d := &c.cfg.Server.Demand
	sorted(d.QuotaPools, func(name string, pool document.QuotaPool) {
		p := path.Key("quota_pools").Key(name)
		c.name(p, name)
		switch {
		case !c.doc.Has(p.Key("limit")):
			c.add(p.Key("limit"), "required", "write how much there is of what is counted; 0 is nothing")
		case pool.Limit < 0:
			c.add(p.Key("limit"), "a negative limit", "from 0 on")
		}
		c.oneOf(p.Key("counts"), pool.Counts, document.CountsMachines, document.CountsVCPU, document.CountsMemory, document.CountsGPU)
		c.capacityTypes(p.Key("capacity_types"), pool.CapacityTypes)
		for i, group := range pool.Groups {
			if tenant, _, ok := strings.Cut(group, "/"); !ok || !c.cfg.HasTenant(tenant) {
				c.add(p.Key("groups").Index(i), jsonc.Quoted(group)+" is no group of a tenant", `write TENANT/GROUP, such as "default/web"`)
			}
		}
	})
	c.priorityDomains(path.Key("priority_domains"), d.PriorityDomains)
	if w := d.PreemptionWeights; w != nil && w.PriorityGap != nil && *w.PriorityGap == 0 {
		c.add(path.Key("preemption_weights").Key("priority_gap"), "what runs at the lowest priority has to go first", "write a number above 0, or take it out for 1")
	}
	for i, price := range d.Prices {
		c.price(path.Key("prices").Index(i), price)
	}
	for i, one := range d.Interruptions {
		p := path.Key("interruptions").Index(i)
		c.capacityTypes(p.Key("capacity_types"), one.CapacityTypes)
		spot := len(one.CapacityTypes) == 0 || slices.Contains(one.CapacityTypes, document.CapacitySpot)
		switch {
		case (one.Hour == nil) == (one.Month == nil):
			c.add(p, "exactly one of hour and month is required", `write the probability within a month, such as "month": 0.05`)
		case spot && one.PPM() == 0:
			c.add(p, "no spot machine is sure to stay", "write a probability above 0")
		}
	}
	sorted(d.MaxHourlySpend, func(tenant string, _ document.USD) {
		if !c.cfg.HasTenant(tenant) {
			reference(c.report, path.Key("max_hourly_spend").Key(tenant), "tenant", tenant, c.cfg.Tenants)
		}
	})
}

func (c serverCheck) priorityDomains(path jsonc.Path, domains [][]string) {
	seen := map[string]bool{}
	for i, domain := range domains {
		for j, tenant := range domain {
			p := path.Index(i).Index(j)
			if !c.cfg.HasTenant(tenant) {
				reference(c.report, p, "tenant", tenant, c.cfg.Tenants)
			}
			if seen[tenant] {
				c.add(p, jsonc.Quoted(tenant)+" is in a list already", "a tenant's priorities are comparable in one list only; take it out of one")
			}
			seen[tenant] = true
		}
		if len(domain) < 2 {
			c.add(path.Index(i), "a list of fewer than two tenants compares nothing", "add another tenant, or take the list out")
		}
	}
}

func (c serverCheck) price(path jsonc.Path, price document.Price) {
	c.capacityTypes(path.Key("capacity_types"), price.CapacityTypes)
	parts, above := false, false
	for _, part := range []*document.USD{price.VCPUHour, price.GiBHour, price.GPUHour} {
		parts, above = parts || part != nil, above || part != nil && *part > 0
	}
	switch {
	case price.Hour != nil && parts:
		c.add(path, "hour is the whole price, and prices of parts stand beside it", "take hour out, or the others")
	case price.Hour == nil && !parts:
		c.add(path, "it has no price", "write hour, or vcpu_hour and gib_hour")
	case price.Hour != nil && *price.Hour <= 0, price.Hour == nil && !above:
		c.add(path, "a price of 0 would make the capacity free", "write what it costs; what is paid for already goes into demand.reservations of a group")
	}
}

func (c serverCheck) capacityTypes(path jsonc.Path, types []string) {
	for i, t := range types {
		c.oneOf(path.Index(i), t, document.CapacityOnDemand, document.CapacitySpot, document.CapacityReserved, document.CapacityBareMetal)
		if t == "" {
			c.add(path.Index(i), "an empty capacity type", "take it out")
		}
	}
}
