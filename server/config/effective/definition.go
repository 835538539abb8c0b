package effective

import (
	"nstance.dev/server/config/document"
	"nstance.dev/server/config/groupfile"
)

// Definition is what the files of a machine come from.
type Definition struct {
	Group        *Group
	Certificates map[string]document.Certificate // those that the group's files name, at least
}

// Definition is what the files of a group's machines come from, and with a request those
// of a machine that was asked for, whether or not the group can be acted on: where its
// template is not there for the tenant any more, the copy in the file counts. False: the
// group is not known, or nobody knows its template.
func (c *Config) Definition(file *groupfile.File, key document.GroupKey, request *InstanceRequest) (Definition, bool) {
	l, ok := c.layersOf(file, key)
	if !ok {
		return Definition{}, false
	}
	if request != nil {
		arch := c.Templates[l.Template].Arch
		l.Request = request
		if request.Template != "" {
			l.Template = request.Template
		}
		l.TemplateTypes = c.Templates[l.Template].Arch != arch && request.InstanceType == ""
	}
	if c.HasTemplate(l) {
		return Definition{c.Merge(l), c.Certificates}, true
	}
	kept, ok := file.Template(groupfile.TemplateUse{Tenant: l.Tenant, Template: l.Template})
	if !ok {
		return Definition{}, false
	}
	doc, then := *c.Config, *c
	doc.Templates = map[string]document.Template{l.Template: kept.Template}
	doc.Certificates = kept.Certificates
	then.Config = &doc
	return Definition{then.Merge(l), kept.Certificates}, true
}
