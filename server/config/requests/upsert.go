package requests

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"nstance.dev/protos/identity"
	"nstance.dev/server/config/document"
	"nstance.dev/server/config/effective"
	"nstance.dev/server/config/groupfile"
	"nstance.dev/server/config/jsonc"
)

// Limits of what a caller of the API may set.
const (
	maxInstanceTypes = 32
	maxRequestBytes  = 256 << 10 // vars or args of a group, as JSON
)

// CheckUpsert gives the entry of the group file that carries out a change, or
// why it must not be carried out: [LockedFieldError], [ManagedByOtherError] or
// [InvalidError]. The file is not changed; a nil one is empty. A group that was
// being deleted comes back to life. If the result equals the old entry there is
// nothing to write.
func CheckUpsert(cfg *effective.Config, file *groupfile.File, tenant, key string, change GroupChange) (groupfile.Entry, error) {
	if err := checkNames(cfg, tenant, key); err != nil {
		return groupfile.Entry{}, err
	}
	entry, known := file.Group(tenant, key)
	if n := file.Len(tenant); !known && n >= document.MaxTenantGroups {
		return groupfile.Entry{}, &groupfile.InvalidError{Field: "key", Msg: fmt.Sprintf("the tenant has %d groups, and may have no more; delete one first", n)}
	}
	if m := entry.Manager; m != "" && change.Manager != "" && m != change.Manager && !change.Takeover {
		return groupfile.Entry{}, &ManagedByOtherError{Manager: m}
	}
	static, isStatic := cfg.Groups[tenant][key]
	if isStatic {
		if err := checkLocked(cfg, static, change); err != nil {
			return groupfile.Entry{}, err
		}
	}
	if err := checkShape(change); err != nil {
		return groupfile.Entry{}, err
	}
	if err := checkStorable(change); err != nil {
		return groupfile.Entry{}, err
	}
	old := entry
	entry = change.apply(entry, isStatic)
	l := effective.Layers{Tenant: tenant, Key: key, Template: entry.Template, Entry: &entry}
	if isStatic {
		l.Static, l.Template = &static, static.Template
	}
	if err := checkDynamic(cfg, l, change); err != nil {
		return groupfile.Entry{}, err
	}
	if err := checkDemand(cfg, l, change, old); err != nil {
		return groupfile.Entry{}, err
	}
	if name, closed := closedArg(cfg, l.Template, old, entry); closed && !isStatic {
		return groupfile.Entry{}, &groupfile.InvalidError{Field: "args", Msg: fmt.Sprintf(
			"%s carries rights, and the template does not let the API set it; leave it out, or have an administrator add it to api_args of the template", jsonc.Short(name))}
	}
	return entry, nil
}

func checkNames(cfg *effective.Config, tenant, key string) error {
	if err := identity.ValidateName(tenant); err != nil {
		return &groupfile.InvalidError{Field: "tenant", Msg: err.Error()}
	}
	if !cfg.HasTenant(tenant) {
		return &groupfile.InvalidError{Field: "tenant", Msg: fmt.Sprintf("%q is not configured", tenant)}
	}
	if err := identity.ValidateName(key); err != nil {
		return &groupfile.InvalidError{Field: "key", Msg: err.Error()}
	}
	return nil
}

// checkLocked refuses a change of what a static group keeps for its file. To
// say again what the file says is no change.
func checkLocked(cfg *effective.Config, static document.Group, change GroupChange) error {
	now := cfg.Merge(effective.Layers{Template: static.Template, Static: &static})
	switch {
	case change.Template != "" && change.Template != static.Template:
		return &LockedFieldError{Field: "template"}
	case change.SubnetPool != "" && change.SubnetPool != now.SubnetPool:
		return &LockedFieldError{Field: "subnet_pool"}
	case len(change.Args) > 0 && !encodable(change.Args):
		return &groupfile.InvalidError{Field: "args", Msg: "not JSON"}
	case len(change.Args) > 0 && !effective.Same(change.Args, static.Args) && !effective.Same(change.Args, now.Args):
		return &LockedFieldError{Field: "args"}
	case len(change.LoadBalancers) > 0 && !slices.Equal(change.LoadBalancers, static.LoadBalancers):
		return &LockedFieldError{Field: "load_balancers"}
	}
	return checkDemandLocked(static, change)
}

// checkShape looks at a change by itself.
func checkShape(change GroupChange) error {
	if n := change.Size; n != nil && (*n < 0 || *n > document.MaxGroupSize) {
		return &groupfile.InvalidError{Field: "size", Msg: fmt.Sprintf("%d is not from 0 to %d", *n, document.MaxGroupSize)}
	}
	if n := len(change.InstanceTypes); n > maxInstanceTypes {
		return &groupfile.InvalidError{Field: "instance_types", Msg: fmt.Sprintf("%d types, at most %d are allowed", n, maxInstanceTypes)}
	}
	for _, t := range append(slices.Clone(change.InstanceTypes), change.InstanceType) {
		if !document.CleanText(t) {
			return &groupfile.InvalidError{Field: "instance_type", Msg: "too long, or with characters that can't be printed"}
		}
	}
	for _, field := range change.Clear {
		if !slices.Contains(ClearableFields, field) {
			return &groupfile.InvalidError{Field: "clear", Msg: fmt.Sprintf("%s must be one of %s", jsonc.Short(field), strings.Join(ClearableFields, ", "))}
		}
	}
	if slices.Contains(change.InstanceTypes, "") {
		return &groupfile.InvalidError{Field: "instance_types", Msg: "an empty type"}
	}
	if err := checkDemandShape(change); err != nil {
		return err
	}
	return checkVars(change.Vars, change.Args)
}

func checkVars(vars map[string]string, args map[string]any) error {
	size := 0
	for name, value := range vars {
		if name == "" || !document.CleanText(name) {
			return &groupfile.InvalidError{Field: "vars", Msg: "a name is empty, too long, or has characters that can't be printed"}
		}
		if strings.ContainsRune(value, 0) {
			return &groupfile.InvalidError{Field: "vars", Msg: fmt.Sprintf("the value of %s contains a NUL", name)}
		}
		size += len(name) + len(value)
	}
	if size > maxRequestBytes {
		return &groupfile.InvalidError{Field: "vars", Msg: fmt.Sprintf("%d bytes, at most %d are allowed", size, maxRequestBytes)}
	}
	data, err := json.Marshal(args)
	switch {
	case err != nil:
		return &groupfile.InvalidError{Field: "args", Msg: "not JSON"}
	case len(data) > maxRequestBytes:
		return &groupfile.InvalidError{Field: "args", Msg: fmt.Sprintf("%d bytes, at most %d are allowed", len(data), maxRequestBytes)}
	}
	return nil
}

func encodable(v any) bool {
	_, err := json.Marshal(v)
	return err == nil
}

// apply gives the entry with the change in it. Of a static group only what is
// not locked is stored.
func (change GroupChange) apply(entry groupfile.Entry, isStatic bool) groupfile.Entry {
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
	return change.applyDemand(entry)
}

// ClearableFields are the names of [GroupChange].Clear.
var ClearableFields = []string{"instance_type", "instance_types", "instance_requirements", "node", "subnet_pool"}

// clear gives the entry without the fields that are to be set no more.
func (change GroupChange) clear(entry groupfile.Entry, isStatic bool) groupfile.Entry {
	for _, field := range change.Clear {
		switch field {
		case "instance_type", "instance_types":
			entry.InstanceType, entry.InstanceTypes = "", nil
		case "instance_requirements":
			entry.InstanceRequirements = nil
		case "node":
			entry.Node = nil
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
func checkDynamic(cfg *effective.Config, l effective.Layers, change GroupChange) error {
	if l.Template == "" {
		return &groupfile.InvalidError{Field: "template", Msg: "required for a group that is not in the server's configuration"}
	}
	if !cfg.HasTemplate(l) {
		return noTemplate(cfg, l)
	}
	t := cfg.Templates[l.Template]
	if l.Static == nil {
		pool := l.Entry.SubnetPool
		if pool == "" {
			pool = t.SubnetPool
		}
		if err := checkPool(cfg, l.Tenant, pool, true); err != nil {
			return err
		}
		if err := checkBalancers(cfg, l, l.Entry.LoadBalancers); err != nil {
			return err
		}
		if err := cfg.Rules.CheckArgs(l.Entry.Args); err != nil {
			return &groupfile.InvalidError{Field: "args", Msg: err.Error()}
		}
	}
	field := "instance_type"
	if len(change.InstanceTypes) > 0 {
		field = "instance_types"
	}
	if err := checkTypes(cfg, field, t, l.Entry.Types()); err != nil {
		return err
	}
	merged := cfg.Merge(l)
	if len(merged.InstanceTypes) == 0 && merged.Requirements == nil {
		return &groupfile.InvalidError{Field: "instance_type", Msg: "required, because the template has none"}
	}
	if change.Vars == nil && change.Args == nil && change.Template == "" {
		return nil // nothing that a template sees: a group can be scaled whatever state its templates are in
	}
	return checkRendering(cfg, merged)
}

// noTemplate answers for a template that the tenant of the layers may not use, or
// that nobody has written.
func noTemplate(cfg *effective.Config, l effective.Layers) error {
	return &groupfile.InvalidError{Field: "template", Msg: unknownName("template", l.Template, effective.Visible(cfg.Templates, l.Tenant, cfg.MayUseTemplate))}
}

// checkBalancers looks at load balancers that the API names.
func checkBalancers(cfg *effective.Config, l effective.Layers, keys []string) error {
	for _, key := range keys {
		if !cfg.HasLoadBalancer(l, key) {
			return &groupfile.InvalidError{Field: "load_balancers", Msg: unknownName("load balancer", key, effective.Visible(cfg.LoadBalancers, l.Tenant, cfg.MayUseLoadBalancer))}
		}
	}
	return nil
}

// checkPool looks at a pool that the API names. A shard of several tenants does not
// tell one that is not open from one that is not there.
func checkPool(cfg *effective.Config, tenant, pool string, restricted bool) error {
	_, known := cfg.Server.SubnetPools[pool]
	open := effective.Visible(cfg.Server.SubnetPools, tenant, cfg.MayUsePool)
	_, allowed := open[pool]
	switch {
	case pool == "":
		return &groupfile.InvalidError{Field: "subnet_pool", Msg: "required, because the template has none"}
	case known && (allowed || !restricted):
		return nil
	case known && !cfg.SeveralTenants():
		return &groupfile.InvalidError{Field: "subnet_pool", Msg: fmt.Sprintf("%q is not open to dynamic groups; open are %s", pool, strings.Join(cfg.Server.DynamicSubnetPools, ", "))}
	}
	return &groupfile.InvalidError{Field: "subnet_pool", Msg: unknownName("subnet pool", pool, open)}
}

// checkTypes looks at instance types that the API names: the template's own are
// always allowed.
func checkTypes(cfg *effective.Config, field string, t document.Template, types []string) error {
	for _, typ := range types {
		if len(t.AllowedInstanceTypes) > 0 && !slices.Contains(t.AllowedInstanceTypes, typ) && !slices.Contains(t.InstanceType, typ) {
			return &groupfile.InvalidError{Field: field, Msg: fmt.Sprintf("%q is not allowed by the template; allowed are %s",
				typ, strings.Join(t.AllowedInstanceTypes, ", "))}
		}
		if fits, err := cfg.Rules.CheckType(typ, t.Arch); !fits {
			return &groupfile.InvalidError{Field: field, Msg: err.Error()}
		}
	}
	return nil
}

// unknownName says that a reference leads nowhere, and where it may have been
// meant to lead.
func unknownName[V any](what, name string, known map[string]V) string {
	names := slices.Sorted(maps.Keys(known))
	msg := fmt.Sprintf("there is no %s %q", what, jsonc.Short(name))
	if near := jsonc.Nearest(name, names); near != "" {
		msg += fmt.Sprintf("; did you mean %q?", near)
	}
	return msg
}

// closedArg gives the first argument of a change that carries rights and that the
// template does not open to the API. What the entry says already is no change of it,
// unless the template is another one: a group that was static has what its
// configuration gave it.
func closedArg(cfg *effective.Config, template string, old, now groupfile.Entry) (string, bool) {
	if !cfg.SeveralTenants() {
		return "", false
	}
	for _, name := range slices.Sorted(maps.Keys(now.Args)) {
		kept := false
		if before, ok := old.Args[name]; ok && old.Template == now.Template {
			kept = effective.Same(before, now.Args[name])
		}
		if !kept && cfg.Rules.Sensitive(name) && !slices.Contains(cfg.Templates[template].APIArgs, name) {
			return name, true
		}
	}
	return "", false
}
