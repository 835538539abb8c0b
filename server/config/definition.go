package config

import (
	"bytes"
	"encoding/json"
	"maps"
)

// TemplateCopy is what the files of machines were made from while their template was
// theirs: a copy of the template's part in it, and of the certificates that its files name.
type TemplateCopy struct {
	Template     Template               `json:"template"`
	Certificates map[string]Certificate `json:"certificates,omitempty"`

	extra map[string]json.RawMessage
}

// TemplateUse says that something of a tenant is made from a template.
type TemplateUse struct{ Tenant, Template string }

// Definition is what the files of a machine come from.
type Definition struct {
	Group        *EffectiveGroup
	Certificates map[string]Certificate // those that the group's files name, at least
}

// Definition is what the files of a group's machines come from, and with a request those
// of a machine that was asked for, whether or not the group can be acted on: where its
// template is not there for the tenant any more, the copy in the file counts. False: the
// group is not known, or nobody knows its template.
func (c *Config) Definition(file *GroupFile, key GroupKey, request *InstanceRequest) (Definition, bool) {
	l, ok := c.layersOf(file, key)
	if !ok {
		return Definition{}, false
	}
	if request != nil {
		arch := c.Templates[l.template].Arch
		l.request = request
		if request.Template != "" {
			l.template = request.Template
		}
		l.templateTypes = c.Templates[l.template].Arch != arch && request.InstanceType == ""
	}
	if c.hasTemplate(l) {
		return Definition{c.merge(l), c.Certificates}, true
	}
	kept, ok := file.template(TemplateUse{l.tenant, l.template})
	if !ok {
		return Definition{}, false
	}
	then := *c
	then.Templates = map[string]Template{l.template: kept.Template}
	then.Certificates = kept.Certificates
	return Definition{then.merge(l), kept.Certificates}, true
}

// template gives the copy of a template.
func (f *GroupFile) template(use TemplateUse) (TemplateCopy, bool) {
	if f == nil {
		return TemplateCopy{}, false
	}
	kept, ok := f.Templates[use.Tenant][use.Template]
	return kept, ok
}

// KeepTemplates makes the copies of templates fit the configuration and the groups of the
// file: one for each tenant and template that a group or one of the given uses needs. What
// the configuration has for the tenant is copied; of what it has not any more, the last copy
// stays. It reports whether anything has changed.
func (c *Config) KeepTemplates(file *GroupFile, others []TemplateUse) bool {
	copies := map[string]map[string]TemplateCopy{}
	for _, use := range others {
		c.keepTemplate(copies, file, use, c.MayUseTemplate(use.Tenant, use.Template))
	}
	for key := range c.allGroups(file) {
		if l, ok := c.layersOf(file, key); ok {
			c.keepTemplate(copies, file, TemplateUse{l.tenant, l.template}, c.hasTemplate(l))
		}
	}
	if sameText(copies, file.Templates) {
		return false
	}
	file.Templates = copies
	return true
}

// KeepTemplateOf adds the copy of a group's template, if there is none.
func (c *Config) KeepTemplateOf(file *GroupFile, key GroupKey) {
	l, ok := c.layersOf(file, key)
	if _, kept := file.template(TemplateUse{l.tenant, l.template}); !ok || kept || !c.hasTemplate(l) {
		return
	}
	copies := maps.Clone(file.Templates) // others read the old one
	if copies == nil {
		copies = map[string]map[string]TemplateCopy{}
	}
	copies[l.tenant] = maps.Clone(copies[l.tenant])
	c.keepTemplate(copies, file, TemplateUse{l.tenant, l.template}, true)
	file.Templates = copies
}

// keepTemplate puts a copy in place: that of the configuration if the template is the
// tenant's, else the one in the file. One that could not be read again is left out.
func (c *Config) keepTemplate(copies map[string]map[string]TemplateCopy, file *GroupFile, use TemplateUse, theirs bool) {
	old, kept := file.template(use)
	next := old
	if theirs {
		next = c.copyTemplate(use.Template)
	}
	if !theirs && !kept {
		return
	}
	one := map[string]map[string]TemplateCopy{use.Tenant: {use.Template: next}}
	if !kept || !sameText(old, next) {
		if _, err := readBack(&GroupFile{Templates: one}); err != nil {
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
func (c *Config) copyTemplate(name string) TemplateCopy {
	t := c.Templates[name]
	kept := TemplateCopy{Template: Template{
		Kind: t.Kind, Arch: t.Arch, InstanceType: t.InstanceType, SubnetPool: t.SubnetPool, Vars: t.Vars, Files: t.Files,
	}}
	for _, f := range t.Files {
		key, ok := f.Template.(string)
		if certificate, named := c.Certificates[key]; ok && named && f.Kind == FileCertificate {
			if kept.Certificates == nil {
				kept.Certificates = map[string]Certificate{}
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

// MarshalJSON writes the copy with the fields that were not known.
func (t TemplateCopy) MarshalJSON() ([]byte, error) {
	type plain TemplateCopy
	return encodeKeeping(plain(t), t.extra)
}

// UnmarshalJSON reads the copy and keeps the fields that are not known.
func (t *TemplateCopy) UnmarshalJSON(data []byte) error {
	type plain TemplateCopy
	return decodeInto(data, (*plain)(t), &t.extra)
}
