package config

import (
	"slices"
	"strings"

	"nstance.dev/server/config/jsonc"
)

func (c *checker) adminTenants(path jsonc.Path) {
	for i, tenant := range c.cfg.Server.AdminTenants {
		if !c.cfg.HasTenant(tenant) {
			reference(c, path.Index(i), "tenant", tenant, c.cfg.Tenants)
		}
	}
	if c.cfg.SeveralTenants() && !c.doc.Has(path) {
		c.warn(path, "nobody may act on the whole shard: there are several tenants, and none is named here",
			`name those whose operators may refresh the configuration and pause the shard, such as ["default"], or write []`)
	}
}

// ownership looks at which tenants may use what, and at what of it they can change.
func (c *checker) ownership() {
	var root jsonc.Path
	sorted(c.cfg.Templates, func(key string, t Template) { c.owners(root.Key("templates").Key(key), t.Tenants) })
	sorted(c.cfg.LoadBalancers, func(key string, lb LoadBalancer) { c.owners(root.Key("load_balancers").Key(key), lb.Tenants) })
	sorted(c.cfg.Certificates, func(key string, cert Certificate) { c.owners(root.Key("certificates").Key(key), cert.Tenants) })
	sorted(c.cfg.Groups, func(tenant string, groups map[string]Group) {
		sorted(groups, func(key string, g Group) {
			path := root.Key("groups").Key(tenant).Key(key)
			c.groupOwner(path, tenant, g)
			if t, ok := c.cfg.Templates[g.Template]; ok && c.cfg.SeveralTenants() {
				c.chosenArgs(path.Key("args"), root.Key("templates").Key(g.Template), g.Args, t)
			}
		})
	})
	sorted(c.cfg.Templates, func(key string, t Template) {
		path := root.Key("templates").Key(key)
		c.apiArgs(path, t)
		c.certificateOwners(path, key, t)
		if c.cfg.SeveralTenants() {
			c.chosenByTenants(path, t)
		}
	})
}

// owners looks at a list of tenants.
func (c *checker) owners(path jsonc.Path, tenants []string) {
	path = path.Key("tenants")
	if len(tenants) == 0 && c.doc.Has(path) {
		c.add(path, "an empty list would let nobody use it", "name at least one tenant, or take the list out")
	}
	for i, tenant := range tenants {
		if !c.cfg.HasTenant(tenant) && !c.silent(section("tenant")) {
			c.add(path.Index(i), "there is no tenant "+quoted(tenant), "add it to tenants, or take it out here")
		}
	}
}

// groupOwner finds static groups that use what their tenant may not.
func (c *checker) groupOwner(path jsonc.Path, tenant string, g Group) {
	if t, ok := c.cfg.Templates[g.Template]; ok && len(t.Tenants) > 0 && !slices.Contains(t.Tenants, tenant) {
		c.add(path.Key("template"), "tenant "+quoted(tenant)+" may not use template "+quoted(g.Template),
			"add the tenant to templates."+g.Template+".tenants, or use another template")
	}
	for i, key := range g.LoadBalancers {
		if lb, ok := c.cfg.LoadBalancers[key]; ok && len(lb.Tenants) > 0 && !slices.Contains(lb.Tenants, tenant) {
			c.add(path.Key("load_balancers").Index(i), "tenant "+quoted(tenant)+" may not use load balancer "+quoted(key),
				"add the tenant to load_balancers."+key+".tenants, or use another load balancer")
		}
	}
}

// certificateOwners finds templates that would give a certificate to tenants that are not
// to have it.
func (c *checker) certificateOwners(path jsonc.Path, template string, t Template) {
	sorted(t.Files, func(name string, f File) {
		key, _ := f.Template.(string)
		cert, ok := c.cfg.Certificates[key]
		if f.Kind != FileCertificate || !ok || len(cert.Tenants) == 0 {
			return
		}
		for _, tenant := range c.cfg.tenants() {
			if c.cfg.MayUseTemplate(tenant, template) && !slices.Contains(cert.Tenants, tenant) {
				c.add(path.Key("files").Key(name).Key("template"),
					"tenant "+quoted(tenant)+" may use this template, and not certificate "+quoted(key),
					"add the tenant to certificates."+key+".tenants, or set tenants of the template")
				return
			}
		}
	})
}

// tenants are the names of all tenants.
func (c *Config) tenants() []string {
	names := []string{DefaultTenant}
	sorted(c.Tenants, func(name string, _ Tenant) { names = append(names, name) })
	return names
}

// Prefixes in api_args of what is no argument.
const (
	apiFile        = "files."
	apiCertificate = "certificates."
)

func (c *checker) apiArgs(path jsonc.Path, t Template) {
	for i, name := range t.APIArgs {
		p := path.Key("api_args").Index(i)
		file, isFile := strings.CutPrefix(name, apiFile)
		cert, isCert := strings.CutPrefix(name, apiCertificate)
		switch {
		case isFile:
			reference(c, p, "file", file, t.Files)
		case isCert:
			reference(c, p, "certificate", cert, c.cfg.Certificates)
		case name == "" || !cleanText(name):
			c.add(p, quoted(name)+" is not a name of an argument", "write a name of args, files.NAME or certificates.KEY")
		case c.opts.Rules != nil && slices.Contains(c.opts.Rules.ForbiddenArgs, name):
			c.add(p, quoted(name)+" is set by the server itself", "take it out")
		}
	}
}

// chosenByTenants finds what of a template carries rights and is filled from what tenants
// choose: the variables and names of their groups.
func (c *checker) chosenByTenants(path jsonc.Path, t Template) {
	var root jsonc.Path
	c.chosenArgs(root.Key("defaults").Key("args"), path, c.cfg.Defaults.Args, t)
	c.chosenArgs(path.Key("args"), path, t.Args, t)
	sorted(t.Files, func(name string, f File) {
		switch key, _ := f.Template.(string); f.Kind {
		case FileStorage:
			c.chosen(path.Key("files").Key(name).Key("source"), path, f.Source, apiFile+name, t)
		case FileCertificate:
			cert, at := c.cfg.Certificates[key], root.Key("certificates").Key(key)
			for member, value := range map[string]any{
				"cn": cert.CN, "organization": cert.Organization, "dns": cert.DNS, "ip": cert.IP, "uri": cert.URI,
			} {
				c.chosen(at.Key(member), path, value, apiCertificate+key, t)
			}
		}
	})
}

func (c *checker) chosenArgs(at, template jsonc.Path, args map[string]any, t Template) {
	sorted(args, func(name string, value any) {
		if c.cfg.rules.sensitive(name) {
			c.chosen(at.Key(name), template, value, name, t)
		}
	})
}

// chosen reports a value of templates that a tenant can fill, unless api_args has its name.
func (c *checker) chosen(at, template jsonc.Path, value any, name string, t Template) {
	if !slices.Contains(t.APIArgs, name) && c.anyChosen(value) {
		c.add(at, "tenants could choose it, by the variables or the name of a group",
			"write what does not depend on them, or allow it: add "+quoted(name)+" to "+template.String()+".api_args")
	}
}

// anyChosen says whether a string in v is a template that tenants can fill.
func (c *checker) anyChosen(v any) bool {
	switch v := v.(type) {
	case string:
		t, err := c.trials.parse(v)
		return err == nil && t.Chosen()
	case []string:
		return slices.ContainsFunc(v, func(s string) bool { return c.anyChosen(s) })
	case []any:
		return slices.ContainsFunc(v, c.anyChosen)
	case map[string]any:
		for _, value := range v {
			if c.anyChosen(value) {
				return true
			}
		}
	}
	return false
}
