package checks

import (
	"slices"
	"strings"

	"nstance.dev/server/config/document"
	"nstance.dev/server/config/jsonc"
)

// ownership looks at which tenants may use what, and at what of it they can change.
func (c ownerCheck) ownership() {
	var root jsonc.Path
	sorted(c.cfg.Templates, func(key string, t document.Template) { c.owners(root.Key("templates").Key(key), t.Tenants) })
	sorted(c.cfg.LoadBalancers, func(key string, lb document.LoadBalancer) { c.owners(root.Key("load_balancers").Key(key), lb.Tenants) })
	sorted(c.cfg.Certificates, func(key string, cert document.Certificate) { c.owners(root.Key("certificates").Key(key), cert.Tenants) })
	sorted(c.cfg.Groups, func(tenant string, groups map[string]document.Group) {
		sorted(groups, func(key string, g document.Group) {
			path := root.Key("groups").Key(tenant).Key(key)
			c.groupOwner(path, tenant, g)
			if t, ok := c.cfg.Templates[g.Template]; ok && c.cfg.SeveralTenants() {
				c.chosenArgs(path.Key("args"), root.Key("templates").Key(g.Template), g.Args, t)
			}
		})
	})
	sorted(c.cfg.Templates, func(key string, t document.Template) {
		path := root.Key("templates").Key(key)
		c.apiArgs(path, t)
		c.certificateOwners(path, key, t)
		if c.cfg.SeveralTenants() {
			c.chosenByTenants(path, t)
		}
	})
}

// owners looks at a list of tenants.
func (c ownerCheck) owners(path jsonc.Path, tenants []string) {
	path = path.Key("tenants")
	if len(tenants) == 0 && c.doc.Has(path) {
		c.add(path, "an empty list would let no tenant use it", "name at least one tenant, or take the list out")
	}
	for i, tenant := range tenants {
		if !c.cfg.HasTenant(tenant) && !c.silent(section("tenant")) {
			c.add(path.Index(i), "there is no tenant "+jsonc.Quoted(tenant), "add it to tenants, or take it out here")
		}
	}
}

// groupOwner finds static groups that use what their tenant may not.
func (c ownerCheck) groupOwner(path jsonc.Path, tenant string, g document.Group) {
	if t, ok := c.cfg.Templates[g.Template]; ok && len(t.Tenants) > 0 && !slices.Contains(t.Tenants, tenant) {
		c.add(path.Key("template"), "tenant "+jsonc.Quoted(tenant)+" may not use template "+jsonc.Quoted(g.Template),
			"add the tenant to templates."+g.Template+".tenants, or use another template")
	}
	for i, key := range g.LoadBalancers {
		if lb, ok := c.cfg.LoadBalancers[key]; ok && len(lb.Tenants) > 0 && !slices.Contains(lb.Tenants, tenant) {
			c.add(path.Key("load_balancers").Index(i), "tenant "+jsonc.Quoted(tenant)+" may not use load balancer "+jsonc.Quoted(key),
				"add the tenant to load_balancers."+key+".tenants, or use another load balancer")
		}
	}
}

// certificateOwners finds templates that would give a certificate to tenants that are not
// to have it.
func (c ownerCheck) certificateOwners(path jsonc.Path, template string, t document.Template) {
	sorted(t.Files, func(name string, f document.File) {
		key, _ := f.Template.(string)
		cert, ok := c.cfg.Certificates[key]
		if f.Kind != document.FileCertificate || !ok || len(cert.Tenants) == 0 {
			return
		}
		for _, tenant := range c.cfg.TenantNames() {
			if c.cfg.MayUseTemplate(tenant, template) && !slices.Contains(cert.Tenants, tenant) {
				c.add(path.Key("files").Key(name).Key("template"),
					"tenant "+jsonc.Quoted(tenant)+" may use this template, and not certificate "+jsonc.Quoted(key),
					"add the tenant to certificates."+key+".tenants, or set tenants of the template")
				return
			}
		}
	})
}

// Prefixes in api_args of what is no argument.
const (
	apiFile        = "files."
	apiCertificate = "certificates."
)

func (c ownerCheck) apiArgs(path jsonc.Path, t document.Template) {
	for i, name := range t.APIArgs {
		p := path.Key("api_args").Index(i)
		file, isFile := strings.CutPrefix(name, apiFile)
		cert, isCert := strings.CutPrefix(name, apiCertificate)
		switch {
		case isFile:
			reference(c.report, p, "file", file, t.Files)
		case isCert:
			reference(c.report, p, "certificate", cert, c.cfg.Certificates)
		case name == "" || !document.CleanText(name):
			c.add(p, jsonc.Quoted(name)+" is not a name of an argument", "write a name of args, files.NAME or certificates.KEY")
		case c.opts.Program != nil && slices.Contains(c.opts.Program.ForbiddenArgs, name):
			c.add(p, jsonc.Quoted(name)+" is set by the server itself", "take it out")
		}
	}
}

// chosenByTenants finds what of a template carries rights and is filled from what tenants
// choose: the variables and names of their groups.
func (c ownerCheck) chosenByTenants(path jsonc.Path, t document.Template) {
	var root jsonc.Path
	c.chosenArgs(root.Key("defaults").Key("args"), path, c.cfg.Defaults.Args, t)
	c.chosenArgs(path.Key("args"), path, t.Args, t)
	sorted(t.Files, func(name string, f document.File) {
		switch key, _ := f.Template.(string); f.Kind {
		case document.FileStorage:
			c.chosen(path.Key("files").Key(name).Key("source"), path, f.Source, apiFile+name, t)
		case document.FileCertificate:
			cert, at := c.cfg.Certificates[key], root.Key("certificates").Key(key)
			for member, value := range map[string]any{
				"cn": cert.CN, "organization": cert.Organization, "dns": cert.DNS, "ip": cert.IP, "uri": cert.URI,
			} {
				c.chosen(at.Key(member), path, value, apiCertificate+key, t)
			}
		}
	})
}

func (c ownerCheck) chosenArgs(at, template jsonc.Path, args map[string]any, t document.Template) {
	sorted(args, func(name string, value any) {
		if c.cfg.Rules.Sensitive(name) {
			c.chosen(at.Key(name), template, value, name, t)
		}
	})
}

// chosen reports a value of templates that a tenant can fill, unless api_args has its name.
func (c ownerCheck) chosen(at, template jsonc.Path, value any, name string, t document.Template) {
	if !slices.Contains(t.APIArgs, name) && c.anyChosen(value) {
		c.add(at, "tenants could choose it, by the variables or the name of a group",
			"write what does not depend on them, or allow it: add "+jsonc.Quoted(name)+" to "+template.String()+".api_args")
	}
}

// anyChosen says whether a string in v is a template that tenants can fill.
func (c ownerCheck) anyChosen(v any) bool {
	switch v := v.(type) {
	case string:
		t, err := c.trials.Parse(v)
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
