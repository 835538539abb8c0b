package config

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"nstance.dev/server/config/jsonc"
	"nstance.dev/server/config/texttemplate"
)

// template checks one template by itself: its syntax, the images that it names,
// and that it renders with made-up data, in which every variable that it names
// has a value. Whether the variables exist is seen where a group uses it.
func (c *checker) template(path jsonc.Path, text string, scope texttemplate.Scope) {
	t, err := c.trials.parse(text)
	if err != nil {
		c.broken(path, templateMessage(err), "correct the template")
		return
	}
	for _, key := range t.Images() {
		if scope != texttemplate.Certificate && !reference(c, path, "image", key, c.cfg.Images) {
			c.reported[path.String()] = true
			return
		}
	}
	vars := Vars{}
	for _, name := range t.Vars() {
		vars[name] = "sample"
	}
	err = c.trials.try(text, vars, scope)
	if failed := new(texttemplate.Error); errors.As(err, &failed) {
		c.broken(path, templateMessage(err), "see the list of what templates of this place can use")
	} else if err != nil {
		c.broken(path, err.Error(), "make it shorter, or let it fetch what it runs")
	}
}

// broken reports a template once, and not again for each group that uses it.
func (c *checker) broken(path jsonc.Path, message, remedy string) {
	c.add(path, message, remedy)
	c.reported[path.String()] = true
}

// templateMessage is the error without the name, which the path tells better.
func templateMessage(err error) string {
	if e := new(texttemplate.Error); errors.As(err, &e) {
		e = &texttemplate.Error{Name: "template", Line: e.Line, Msg: e.Msg}
		return e.Error()
	}
	return err.Error()
}

func (c *Config) sampleImages() map[string]string {
	images := make(map[string]string, len(c.Images))
	for key := range c.Images {
		images[key] = "image-sample"
	}
	return images
}

// rendering tries all templates of each static group with the variables that
// the group really has, and looks at its arguments as a whole.
func (c *checker) rendering() {
	sorted(c.cfg.Groups, func(tenant string, groups map[string]Group) {
		sorted(groups, func(key string, g Group) {
			if _, ok := c.cfg.Templates[g.Template]; !ok {
				return
			}
			merged := c.cfg.lay(layers{tenant: tenant, key: key, template: g.Template, static: &g})
			if err := c.cfg.rules.checkTogether(merged.Args); err != nil {
				c.add(c.origin(tenant, key, g.Template, []any{"args"}), "for group "+tenant+"/"+key+": "+err.Error(),
					"add it to args of the group, its template or defaults")
			}
			for _, failed := range c.trials.ofGroup(merged, g.Args == nil, c.cfg) {
				remedy := "set the variable in vars of the group, its template or defaults"
				if !errors.As(failed.err, new(*texttemplate.Error)) {
					remedy = "change what is written here, or the variables that it is made of"
				}
				c.add(c.origin(tenant, key, g.Template, failed.place), "for group "+tenant+"/"+key+": "+templateMessage(failed.err), remedy)
			}
		})
	})
}

// origin finds where in the document the part of a group comes from: the
// highest layer that has it.
func (c *checker) origin(tenant, key, template string, place []any) jsonc.Path {
	var root jsonc.Path
	layers := []jsonc.Path{root.Key("groups").Key(tenant).Key(key), root.Key("templates").Key(template), root.Key("defaults")}
	if place[0] == "certificates" {
		layers = []jsonc.Path{root}
	}
	for _, path := range layers {
		for _, step := range place {
			if i, ok := step.(int); ok {
				path = path.Index(i)
			} else {
				path = path.Key(step.(string))
			}
		}
		if c.doc.Has(path) {
			return path
		}
	}
	return layers[0]
}

// failedTemplate is a template of a group that does not render.
type failedTemplate struct {
	place []any // keys and indexes, from the layer's own object
	err   error
}

// tryTemplates renders every template of a group with made-up data and the
// group's variables.
func (g *EffectiveGroup) tryTemplates(cfg *Config, trials *trials) trial {
	t := trial{trials: trials, vars: g.Vars, named: map[string]bool{}}
	if g.Userdata.Source == SourceInline && g.Userdata.Content != "" {
		text, err := g.Userdata.Decode([]byte(g.Userdata.Content))
		if err == nil {
			t.text([]any{"userdata", "content"}, text, texttemplate.Userdata)
		}
	}
	t.tree([]any{"args"}, g.Args, texttemplate.Args)
	sorted(g.Files, func(name string, f File) {
		place := []any{"files", name}
		switch key, _ := f.Template.(string); f.Kind {
		case FileStorage:
			t.storageKey(append(place, "source"), f.Source, cfg)
		case FileCertificate:
			t.certificate([]any{"certificates", key}, cfg.Certificates[key])
		case FileEnv, FileJSON, FileString:
			t.tree(append(place, "template"), f.Template, texttemplate.Files)
		}
	})
	return t
}

// trial collects what does not render with the variables of one group, and which of
// them its templates name.
type trial struct {
	trials *trials
	vars   Vars
	failed []failedTemplate
	named  map[string]bool
	opaque bool // a template may see others too
}

func (t *trial) text(place []any, text string, scope texttemplate.Scope) {
	if template, err := t.trials.parse(text); err == nil {
		for _, name := range template.Vars() {
			t.named[name] = true
		}
		t.opaque = t.opaque || !template.NamesVars()
	}
	if err := t.trials.try(text, t.vars, scope); err != nil {
		t.failed = append(t.failed, failedTemplate{place: slices.Clone(place), err: err})
	}
}

// rendered renders one template, and has check look at what comes of it.
func (t *trial) rendered(place []any, text string, scope texttemplate.Scope, check func(string) error) {
	before := len(t.failed)
	t.text(place, text, scope)
	if len(t.failed) > before || !strings.Contains(text, "{{") {
		return // what is no template was looked at where it stands
	}
	template, err := t.trials.parse(text)
	if err != nil {
		return
	}
	out, err := template.Execute(texttemplate.Sample(t.vars, t.trials.images), scope, t.trials.limit(scope))
	if err == nil {
		err = check(out)
	}
	if err != nil {
		t.failed = append(t.failed, failedTemplate{place: slices.Clone(place), err: err})
	}
}

// storageKey renders the key of an object and looks at what it comes to.
func (t *trial) storageKey(place []any, source string, cfg *Config) {
	t.rendered(place, source, texttemplate.Files, func(key string) error {
		if err := validObjectKey(key); err != nil {
			return errors.New("it comes to " + quoted(key) + ", which is not a key of an object: " + err.Error())
		}
		if err := cfg.FileSources().Check(key); err != nil {
			return fmt.Errorf("it comes to %s: %w", quoted(key), err)
		}
		return nil
	})
}

func (t *trial) tree(place []any, v any, scope texttemplate.Scope) {
	switch v := v.(type) {
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(v)) {
			t.tree(append(slices.Clip(place), key), v[key], scope)
		}
	case []any:
		for i, value := range v {
			t.tree(append(slices.Clip(place), i), value, scope)
		}
	case string:
		t.text(place, v, scope)
	}
}

func (t *trial) certificate(place []any, cert Certificate) {
	t.tree(append(slices.Clip(place), "cn"), cert.CN, texttemplate.Certificate)
	for _, list := range []struct {
		name   string
		values []string
	}{{"organization", cert.Organization}, {"dns", cert.DNS}, {"ip", cert.IP}, {"uri", cert.URI}} {
		for i, value := range list.values {
			t.rendered(append(slices.Clip(place), list.name, i), value, texttemplate.Certificate, func(name string) error {
				if name == "" {
					return nil // it is left out
				}
				return certificateName(list.name, name)
			})
		}
	}
}

// checkRendering tries the templates of a group or an instance that a caller of
// the API asks for. What fails is most often a variable that is missing.
func (c *Config) checkRendering(g *EffectiveGroup) error {
	failed := g.tryTemplates(c, newTrials(c)).failed
	if len(failed) == 0 {
		return nil
	}
	field := "vars"
	if failed[0].place[0] == "args" {
		field = "args"
	}
	place := ""
	for _, step := range failed[0].place {
		place += fmt.Sprintf("/%v", step)
	}
	return &InvalidError{Field: field, Msg: shorten(place[1:]) + " does not render: " + templateMessage(failed[0].err)}
}
