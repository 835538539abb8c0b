package config

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode"

	"nstance.dev/protos/identity"
	"nstance.dev/server/config/jsonc"
)

// Limits of what a caller of the API may set.
const (
	MaxGroupSize     = 10_000
	MaxTenantGroups  = 5_000 // that the group file has for one tenant
	maxInstanceTypes = 32
	maxNameLength    = 256
	maxRequestBytes  = 256 << 10 // vars or args of a group, as JSON
)

// CheckUpsert gives the entry of the group file that carries out a change, or
// why it must not be carried out: [LockedFieldError], [ManagedByOtherError] or
// [InvalidError]. The file is not changed; a nil one is empty. A group that was
// being deleted comes back to life. If the result equals the old entry there is
// nothing to write.
func CheckUpsert(cfg *Config, file *GroupFile, tenant, key string, change GroupChange) (DynamicGroup, error) {
	if err := checkNames(cfg, tenant, key); err != nil {
		return DynamicGroup{}, err
	}
	entry, known := file.Group(tenant, key)
	if n := file.Len(tenant); !known && n >= MaxTenantGroups {
		return DynamicGroup{}, &InvalidError{Field: "key", Msg: fmt.Sprintf("the tenant has %d groups, and may have no more; delete one first", n)}
	}
	if m := entry.Manager; m != "" && change.Manager != "" && m != change.Manager && !change.Takeover {
		return DynamicGroup{}, &ManagedByOtherError{Manager: m}
	}
	static, isStatic := cfg.Groups[tenant][key]
	if isStatic {
		if err := cfg.checkLocked(static, change); err != nil {
			return DynamicGroup{}, err
		}
	}
	if err := checkShape(change); err != nil {
		return DynamicGroup{}, err
	}
	if err := checkStorable(change); err != nil {
		return DynamicGroup{}, err
	}
	old := entry
	entry = change.apply(entry, isStatic)
	l := layers{tenant: tenant, key: key, template: entry.Template, dynamic: &entry}
	if isStatic {
		l.static, l.template = &static, static.Template
	}
	if err := cfg.checkDynamic(l, change); err != nil {
		return DynamicGroup{}, err
	}
	if name, closed := cfg.closedArg(l.template, old, entry); closed && !isStatic {
		return DynamicGroup{}, &InvalidError{Field: "args", Msg: fmt.Sprintf(
			"%s carries rights, and the template does not let the API set it; leave it out, or have an administrator add it to api_args of the template", shorten(name))}
	}
	return entry, nil
}

func checkNames(cfg *Config, tenant, key string) error {
	if err := identity.ValidateName(tenant); err != nil {
		return &InvalidError{Field: "tenant", Msg: err.Error()}
	}
	if !cfg.HasTenant(tenant) {
		return &InvalidError{Field: "tenant", Msg: fmt.Sprintf("%q is not configured", tenant)}
	}
	if err := identity.ValidateName(key); err != nil {
		return &InvalidError{Field: "key", Msg: err.Error()}
	}
	return nil
}

// checkLocked refuses a change of what a static group keeps for its file. To
// say again what the file says is no change.
func (c *Config) checkLocked(static Group, change GroupChange) error {
	now := c.merge(layers{template: static.Template, static: &static})
	same := func(a, b any) bool { return string(canonical(a)) == string(canonical(b)) }
	switch {
	case change.Template != "" && change.Template != static.Template:
		return &LockedFieldError{Field: "template"}
	case change.SubnetPool != "" && change.SubnetPool != now.SubnetPool:
		return &LockedFieldError{Field: "subnet_pool"}
	case len(change.Args) > 0 && !encodable(change.Args):
		return &InvalidError{Field: "args", Msg: "not JSON"}
	case len(change.Args) > 0 && !same(change.Args, static.Args) && !same(change.Args, now.Args):
		return &LockedFieldError{Field: "args"}
	case len(change.LoadBalancers) > 0 && !slices.Equal(change.LoadBalancers, static.LoadBalancers):
		return &LockedFieldError{Field: "load_balancers"}
	}
	return nil
}

// checkShape looks at a change by itself.
func checkShape(change GroupChange) error {
	if n := change.Size; n != nil && (*n < 0 || *n > MaxGroupSize) {
		return &InvalidError{Field: "size", Msg: fmt.Sprintf("%d is not from 0 to %d", *n, MaxGroupSize)}
	}
	if n := len(change.InstanceTypes); n > maxInstanceTypes {
		return &InvalidError{Field: "instance_types", Msg: fmt.Sprintf("%d types, at most %d are allowed", n, maxInstanceTypes)}
	}
	for _, t := range append(slices.Clone(change.InstanceTypes), change.InstanceType) {
		if !cleanText(t) {
			return &InvalidError{Field: "instance_type", Msg: "too long, or with characters that can't be printed"}
		}
	}
	for _, field := range change.Clear {
		if !slices.Contains(ClearableFields, field) {
			return &InvalidError{Field: "clear", Msg: fmt.Sprintf("%s must be one of %s", shorten(field), strings.Join(ClearableFields, ", "))}
		}
	}
	if slices.Contains(change.InstanceTypes, "") {
		return &InvalidError{Field: "instance_types", Msg: "an empty type"}
	}
	return checkVars(change.Vars, change.Args)
}

func checkVars(vars map[string]string, args map[string]any) error {
	size := 0
	for name, value := range vars {
		if name == "" || !cleanText(name) {
			return &InvalidError{Field: "vars", Msg: "a name is empty, too long, or has characters that can't be printed"}
		}
		if strings.ContainsRune(value, 0) {
			return &InvalidError{Field: "vars", Msg: fmt.Sprintf("the value of %s contains a NUL", name)}
		}
		size += len(name) + len(value)
	}
	if size > maxRequestBytes {
		return &InvalidError{Field: "vars", Msg: fmt.Sprintf("%d bytes, at most %d are allowed", size, maxRequestBytes)}
	}
	data, err := json.Marshal(args)
	switch {
	case err != nil:
		return &InvalidError{Field: "args", Msg: "not JSON"}
	case len(data) > maxRequestBytes:
		return &InvalidError{Field: "args", Msg: fmt.Sprintf("%d bytes, at most %d are allowed", len(data), maxRequestBytes)}
	}
	return nil
}

func encodable(v any) bool {
	_, err := json.Marshal(v)
	return err == nil
}

// cleanText says whether a short name can go into a tag or a log line.
func cleanText(s string) bool {
	return len(s) <= maxNameLength && !strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsPrint(r) })
}

// apply gives the entry with the change in it. Of a static group only what is
// not locked is stored.
func (change GroupChange) apply(entry DynamicGroup, isStatic bool) DynamicGroup {
	entry = change.clear(entry, isStatic)
	if change.Size != nil {
		size := *change.Size
		entry.Size = &size
	}
	if len(change.InstanceTypes) > 0 {
		entry.InstanceType, entry.InstanceTypes = "", slices.Clone(change.InstanceTypes)
	} else if change.InstanceType != "" {
		entry.InstanceType, entry.InstanceTypes = change.InstanceType, nil
	}
	if change.Vars != nil {
		entry.Vars = maps.Clone(change.Vars)
	}
	if change.Manager != "" {
		entry.Manager = change.Manager
	}
	entry.DeletedAt, entry.Rebuilt = nil, nil
	if isStatic {
		return entry
	}
	if change.Template != "" {
		entry.Template = change.Template
	}
	if change.SubnetPool != "" {
		entry.SubnetPool = change.SubnetPool
	}
	if change.Args != nil {
		entry.Args = maps.Clone(change.Args)
	}
	if change.LoadBalancers != nil {
		entry.LoadBalancers = slices.Clone(change.LoadBalancers)
	}
	return entry
}

// ClearableFields are the names of [GroupChange].Clear.
var ClearableFields = []string{"instance_type", "instance_types", "subnet_pool"}

// clear gives the entry without the fields that are to be set no more.
func (change GroupChange) clear(entry DynamicGroup, isStatic bool) DynamicGroup {
	for _, field := range change.Clear {
		switch field {
		case "instance_type", "instance_types":
			entry.InstanceType, entry.InstanceTypes = "", nil
		case "subnet_pool":
			if !isStatic {
				entry.SubnetPool = ""
			}
		}
	}
	return entry
}

// checkDynamic looks at what the layers come to. The change says which field
// to blame.
func (c *Config) checkDynamic(l layers, change GroupChange) error {
	if l.template == "" {
		return &InvalidError{Field: "template", Msg: "required for a group that is not in the server's configuration"}
	}
	if !c.hasTemplate(l) {
		return c.noTemplate(l)
	}
	t := c.Templates[l.template]
	if l.static == nil {
		pool := l.dynamic.SubnetPool
		if pool == "" {
			pool = t.SubnetPool
		}
		if err := c.checkPool(l.tenant, pool, true); err != nil {
			return err
		}
		if err := c.checkBalancers(l, l.dynamic.LoadBalancers); err != nil {
			return err
		}
		if err := c.rules.checkArgs(l.dynamic.Args); err != nil {
			return &InvalidError{Field: "args", Msg: err.Error()}
		}
	}
	field := "instance_type"
	if len(change.InstanceTypes) > 0 {
		field = "instance_types"
	}
	if err := c.checkTypes(field, t, l.dynamic.types()); err != nil {
		return err
	}
	merged := c.merge(l)
	if len(merged.InstanceTypes) == 0 {
		return &InvalidError{Field: "instance_type", Msg: "required, because the template has none"}
	}
	if change.Vars == nil && change.Args == nil && change.Template == "" {
		return nil // nothing that a template sees: a group can be scaled whatever state its templates are in
	}
	return c.checkRendering(merged)
}

// noTemplate answers for a template that the tenant of the layers may not use, or
// that nobody has written.
func (c *Config) noTemplate(l layers) error {
	return &InvalidError{Field: "template", Msg: unknownName("template", l.template, visible(c.Templates, l.tenant, c.MayUseTemplate))}
}

// checkBalancers looks at load balancers that the API names.
func (c *Config) checkBalancers(l layers, keys []string) error {
	for _, key := range keys {
		if !c.hasLoadBalancer(l, key) {
			return &InvalidError{Field: "load_balancers", Msg: unknownName("load balancer", key, visible(c.LoadBalancers, l.tenant, c.MayUseLoadBalancer))}
		}
	}
	return nil
}

// checkPool looks at a pool that the API names. A shard of several tenants does not
// tell one that is not open from one that is not there.
func (c *Config) checkPool(tenant, pool string, restricted bool) error {
	_, known := c.Server.SubnetPools[pool]
	open := visible(c.Server.SubnetPools, tenant, c.mayUsePool)
	_, allowed := open[pool]
	switch {
	case pool == "":
		return &InvalidError{Field: "subnet_pool", Msg: "required, because the template has none"}
	case known && (allowed || !restricted):
		return nil
	case known && !c.SeveralTenants():
		return &InvalidError{Field: "subnet_pool", Msg: fmt.Sprintf("%q is not open to dynamic groups; open are %s", pool, strings.Join(c.Server.DynamicSubnetPools, ", "))}
	}
	return &InvalidError{Field: "subnet_pool", Msg: unknownName("subnet pool", pool, open)}
}

// checkTypes looks at instance types that the API names: the template's own are
// always allowed.
func (c *Config) checkTypes(field string, t Template, types []string) error {
	for _, typ := range types {
		if len(t.AllowedInstanceTypes) > 0 && !slices.Contains(t.AllowedInstanceTypes, typ) && !slices.Contains(t.InstanceType, typ) {
			return &InvalidError{Field: field, Msg: fmt.Sprintf("%q is not allowed by the template; allowed are %s",
				typ, strings.Join(t.AllowedInstanceTypes, ", "))}
		}
		if fits, err := c.rules.checkType(typ, t.Arch); !fits {
			return &InvalidError{Field: field, Msg: err.Error()}
		}
	}
	return nil
}

// CheckInstance gives what an on-demand instance of a group should be: the
// group with the request over it. A group that is not there, or is being
// deleted, is [ErrGroupNotFound]; a request that does not fit is an
// [InvalidError]. Where the request names a template of another architecture,
// the group's own instance types do not count.
func CheckInstance(cfg *Config, file *GroupFile, tenant, group string, req InstanceRequest) (*EffectiveGroup, error) {
	_, isStatic := cfg.Groups[tenant][group]
	entry, isDynamic := file.Group(tenant, group)
	if !isStatic && (!isDynamic || entry.DeletedAt != nil) {
		return nil, fmt.Errorf("group %s/%s: %w", shorten(tenant), shorten(group), ErrGroupNotFound)
	}
	base := cfg.effective(file, GroupKey{tenant, group})
	if base.Held != "" {
		return nil, &InvalidError{Field: "group", Msg: base.Held}
	}
	if err := checkShape(GroupChange{InstanceType: req.InstanceType, Vars: req.Vars}); err != nil {
		return nil, err
	}
	l := layers{tenant: tenant, key: group, template: base.Template, dynamic: base.Dynamic, request: &req}
	if isStatic {
		static := cfg.Groups[tenant][group]
		l.static = &static
	}
	if req.Template != "" {
		l.template = req.Template
	}
	return cfg.checkRequest(l, base, req)
}

func (c *Config) checkRequest(l layers, base *EffectiveGroup, req InstanceRequest) (*EffectiveGroup, error) {
	if !c.hasTemplate(l) {
		return nil, c.noTemplate(l)
	}
	t := c.Templates[l.template]
	if req.InstanceType != "" {
		if err := c.checkTypes("instance_type", t, []string{req.InstanceType}); err != nil {
			return nil, err
		}
	}
	if req.SubnetPool != "" {
		if err := c.checkPool(l.tenant, req.SubnetPool, req.SubnetPool != base.SubnetPool); err != nil {
			return nil, err
		}
	}
	if err := c.checkBalancers(l, req.LoadBalancers); err != nil {
		return nil, err
	}
	l.templateTypes = t.Arch != base.Arch && req.InstanceType == ""
	merged := c.merge(l)
	if len(merged.InstanceTypes) == 0 {
		return nil, &InvalidError{Field: "instance_type", Msg: "required, because the template has none"}
	}
	if err := c.checkRendering(merged); err != nil {
		return nil, err
	}
	return merged, nil
}

// unknownName says that a reference leads nowhere, and where it may have been
// meant to lead.
func unknownName[V any](what, name string, known map[string]V) string {
	names := slices.Sorted(maps.Keys(known))
	msg := fmt.Sprintf("there is no %s %q", what, shorten(name))
	if near := jsonc.Nearest(name, names); near != "" {
		msg += fmt.Sprintf("; did you mean %q?", near)
	}
	return msg
}
