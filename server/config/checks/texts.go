package checks

import (
	"errors"

	"nstance.dev/server/config/document"
	"nstance.dev/server/config/dryrun"
	"nstance.dev/server/config/jsonc"
	"nstance.dev/server/config/texttemplate"
)

// template checks one template by itself: its syntax, the images that it names,
// and that it renders with made-up data, in which every variable that it names
// has a value. Whether the variables exist is seen where a group uses it.
func (c machineCheck) template(path jsonc.Path, text string, scope texttemplate.Scope) {
	t, err := c.trials.Parse(text)
	if err != nil {
		c.broken(path, dryrun.Message(err), "correct the template")
		return
	}
	for _, key := range t.Images() {
		if scope != texttemplate.Certificate && !reference(c.report, path, "image", key, c.cfg.Images) {
			c.reported[path.String()] = true
			return
		}
	}
	vars := document.Vars{}
	for _, name := range t.Vars() {
		vars[name] = "sample"
	}
	err = c.trials.Try(text, vars, scope)
	if failed := new(texttemplate.Error); errors.As(err, &failed) {
		c.broken(path, dryrun.Message(err), "see the list of what templates of this place can use")
	} else if err != nil {
		c.broken(path, err.Error(), "make it shorter, or let it fetch what it runs")
	}
}

// broken reports a template once, and not again for each group that uses it.
func (c machineCheck) broken(path jsonc.Path, message, remedy string) {
	c.add(path, message, remedy)
	c.reported[path.String()] = true
}

// tree tries every string of a value as a template.
func (c machineCheck) tree(path jsonc.Path, v any, scope texttemplate.Scope) {
	switch v := v.(type) {
	case map[string]any:
		sorted(v, func(key string, value any) { c.tree(path.Key(key), value, scope) })
	case []any:
		for i, value := range v {
			c.tree(path.Index(i), value, scope)
		}
	case string:
		c.template(path, v, scope)
	}
}
