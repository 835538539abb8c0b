package requests

import (
	"fmt"

	"nstance.dev/server/config/document"
	"nstance.dev/server/config/effective"
	"nstance.dev/server/config/groupfile"
	"nstance.dev/server/config/jsonc"
)

// CheckInstance gives what an on-demand instance of a group should be: the
// group with the request over it. A group that is not there, or is being
// deleted, is [ErrGroupNotFound]; a request that does not fit is an
// [InvalidError]. Where the request names a template of another architecture,
// the group's own instance types do not count.
func CheckInstance(cfg *effective.Config, file *groupfile.File, tenant, group string, req effective.InstanceRequest) (*effective.Group, error) {
	_, isStatic := cfg.Groups[tenant][group]
	entry, _ := file.Group(tenant, group)
	base, ok := cfg.Group(file, document.GroupKey{Tenant: tenant, Group: group})
	if !ok || !isStatic && entry.DeletedAt != nil {
		return nil, fmt.Errorf("group %s/%s: %w", jsonc.Short(tenant), jsonc.Short(group), ErrGroupNotFound)
	}
	if base.Blocked != "" {
		return nil, &groupfile.InvalidError{Field: "group", Msg: base.Blocked}
	}
	if err := checkShape(GroupChange{InstanceType: req.InstanceType, Vars: req.Vars}); err != nil {
		return nil, err
	}
	l := effective.Layers{Tenant: tenant, Key: group, Template: base.Template, Entry: base.Dynamic, Request: &req}
	if isStatic {
		static := cfg.Groups[tenant][group]
		l.Static = &static
	}
	if req.Template != "" {
		l.Template = req.Template
	}
	return checkRequest(cfg, l, base, req)
}

func checkRequest(cfg *effective.Config, l effective.Layers, base *effective.Group, req effective.InstanceRequest) (*effective.Group, error) {
	if !cfg.HasTemplate(l) {
		return nil, noTemplate(cfg, l)
	}
	t := cfg.Templates[l.Template]
	if req.InstanceType != "" {
		if err := checkTypes(cfg, "instance_type", t, []string{req.InstanceType}); err != nil {
			return nil, err
		}
	}
	if req.SubnetPool != "" {
		if err := checkPool(cfg, l.Tenant, req.SubnetPool, req.SubnetPool != base.SubnetPool); err != nil {
			return nil, err
		}
	}
	if err := checkBalancers(cfg, l, req.LoadBalancers); err != nil {
		return nil, err
	}
	l.TemplateTypes = t.Arch != base.Arch && req.InstanceType == ""
	merged := cfg.Merge(l)
	if len(merged.InstanceTypes) == 0 {
		return nil, &groupfile.InvalidError{Field: "instance_type", Msg: "required, because the template has none"}
	}
	if err := checkRendering(cfg, merged); err != nil {
		return nil, err
	}
	return merged, nil
}
