package effective

import (
	"bytes"
	"encoding/json"
	"maps"

	"nstance.dev/server/config/document"
	"nstance.dev/server/config/groupfile"
)

// KeepTemplates makes the copies of templates fit the configuration and the groups of the
// file: one for each tenant and template that a group or one of the given uses needs. What
// the configuration has for the tenant is copied; of what it has not any more, the last copy
// stays. It reports whether anything has changed.
func (c *Config) KeepTemplates(file *groupfile.File, others []groupfile.TemplateUse) bool {
	copies := map[string]map[string]groupfile.TemplateCopy{}
	for _, use := range others {
		c.keepTemplate(copies, file, use, c.MayUseTemplate(use.Tenant, use.Template))
	}
	for key := range c.allGroups(file) {
		if l, ok := c.layersOf(file, key); ok {
			c.keepTemplate(copies, file, groupfile.TemplateUse{Tenant: l.Tenant, Template: l.Template}, c.HasTemplate(l))
		}
	}
	if sameText(copies, file.Templates) {
		return false
	}
	file.Templates = copies
	return true
}

// KeepTemplateOf adds the copy of a group's template, if there is none.
func (c *Config) KeepTemplateOf(file *groupfile.File, key document.GroupKey) {
	l, ok := c.layersOf(file, key)
	if _, kept := file.Template(groupfile.TemplateUse{Tenant: l.Tenant, Template: l.Template}); !ok || kept || !c.HasTemplate(l) {
		return
	}
	copies := maps.Clone(file.Templates) // others read the old one
	if copies == nil {
		copies = map[string]map[string]groupfile.TemplateCopy{}
	}
	copies[l.Tenant] = maps.Clone(copies[l.Tenant])
	c.keepTemplate(copies, file, groupfile.TemplateUse{Tenant: l.Tenant, Template: l.Template}, true)
	file.Templates = copies
}

// keepTemplate puts a copy in place: that of the configuration if the template is the
// tenant's, else the one in the file. One that could not be read again is left out.
func (c *Config) keepTemplate(copies map[string]map[string]groupfile.TemplateCopy, file *groupfile.File, use groupfile.TemplateUse, theirs bool) {
	old, kept := file.Template(use)
	next := old
	if theirs {
		next = c.copyTemplate(use.Template)
	}
	if !theirs && !kept {
		return
	}
	one := map[string]map[string]groupfile.TemplateCopy{use.Tenant: {use.Template: next}}
	if !kept || !sameText(old, next) {
		if _, err := groupfile.ReadBack(&groupfile.File{Templates: one}); err != nil {
			return
		}
	}
	if copies[use.Tenant] == nil {
		copies[use.Tenant] = one[use.Tenant]
		return
	}
	copies[use.Tenant][use.Template] = next
}

// copyTemplate copies what the files of machines come from.
func (c *Config) copyTemplate(name string) groupfile.TemplateCopy {
	t := c.Templates[name]
	kept := groupfile.TemplateCopy{Template: document.Template{
		Kind: t.Kind, Arch: t.Arch, InstanceType: t.InstanceType, SubnetPool: t.SubnetPool, Vars: t.Vars, Files: t.Files,
	}}
	for _, f := range t.Files {
		key, ok := f.Template.(string)
		if certificate, named := c.Certificates[key]; ok && named && f.Kind == document.FileCertificate {
			if kept.Certificates == nil {
				kept.Certificates = map[string]document.Certificate{}
			}
			kept.Certificates[key] = certificate
		}
	}
	return kept
}

// sameText says whether two values are written alike.
func sameText(a, b any) bool {
	textA, errA := json.Marshal(a)
	textB, errB := json.Marshal(b)
	return errA == nil && errB == nil && bytes.Equal(textA, textB)
}
