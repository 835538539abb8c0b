package groupfile

import (
	"encoding/json"

	"nstance.dev/server/config/document"
)

// TemplateCopy is what the files of machines were made from while their template was
// theirs: a copy of the template's part in it, and of the certificates that its files name.
type TemplateCopy struct {
	Template     document.Template               `json:"template"`
	Certificates map[string]document.Certificate `json:"certificates,omitempty"`

	extra map[string]json.RawMessage
}

// TemplateUse says that something of a tenant is made from a template.
type TemplateUse struct{ Tenant, Template string }

// Template gives the copy of a template.
func (f *File) Template(use TemplateUse) (TemplateCopy, bool) {
	if f == nil {
		return TemplateCopy{}, false
	}
	kept, ok := f.Templates[use.Tenant][use.Template]
	return kept, ok
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
