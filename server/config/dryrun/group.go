package dryrun

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"nstance.dev/server/config/document"
	"nstance.dev/server/config/effective"
	"nstance.dev/server/config/jsonc"
	"nstance.dev/server/config/texttemplate"
)

// Message is the error without the name, which the path tells better.
func Message(err error) string {
	if e := new(texttemplate.Error); errors.As(err, &e) {
		e = &texttemplate.Error{Name: "template", Line: e.Line, Msg: e.Msg}
		return e.Error()
	}
	return err.Error()
}

// Failure is a template of a group that does not render.
type Failure struct {
	Place []any // keys (string) and indexes (int), from the layer's own object
	Err   error // why, an [texttemplate.Error] or the provider's reason
}

// all renders every template of a group with made-up data and the group's variables.
func (t *Trials) all(g *effective.Group) trial {
	one := trial{trials: t, vars: g.Vars, named: map[string]bool{}}
	if g.Userdata.Source == document.SourceInline && g.Userdata.Content != "" {
		text, err := g.Userdata.Decode([]byte(g.Userdata.Content))
		if err == nil {
			one.text([]any{"userdata", "content"}, text, texttemplate.Userdata)
		}
	}
	one.tree([]any{"args"}, g.Args, texttemplate.Args)
	for _, name := range slices.Sorted(maps.Keys(g.Files)) {
		f, place := g.Files[name], []any{"files", name}
		switch key, _ := f.Template.(string); f.Kind {
		case document.FileStorage:
			one.storageKey(append(place, "source"), f.Source)
		case document.FileCertificate:
			one.certificate([]any{"certificates", key}, t.cfg.Certificates[key])
		case document.FileEnv, document.FileJSON, document.FileString:
			one.tree(append(place, "template"), f.Template, texttemplate.Files)
		}
	}
	return one
}

// trial collects what does not render with the variables of one group, and which of
// them its templates name.
type trial struct {
	trials *Trials
	vars   document.Vars
	failed []Failure
	named  map[string]bool
	opaque bool // a template may see others too
}

func (t *trial) text(place []any, text string, scope texttemplate.Scope) {
	if template, err := t.trials.Parse(text); err == nil {
		for _, name := range template.Vars() {
			t.named[name] = true
		}
		t.opaque = t.opaque || !template.NamesVars()
	}
	if err := t.trials.Try(text, t.vars, scope); err != nil {
		t.failed = append(t.failed, Failure{Place: slices.Clone(place), Err: err})
	}
}

// rendered renders one template, and has check look at what comes of it.
func (t *trial) rendered(place []any, text string, scope texttemplate.Scope, check func(string) error) {
	before := len(t.failed)
	t.text(place, text, scope)
	if len(t.failed) > before || !strings.Contains(text, "{{") {
		return // what is no template was looked at where it stands
	}
	template, err := t.trials.Parse(text)
	if err != nil {
		return
	}
	out, err := template.Execute(texttemplate.Sample(t.vars, t.trials.images), scope, t.trials.limit(scope))
	if err == nil {
		err = check(out)
	}
	if err != nil {
		t.failed = append(t.failed, Failure{Place: slices.Clone(place), Err: err})
	}
}

// storageKey renders the key of an object and looks at what it comes to.
func (t *trial) storageKey(place []any, source string) {
	t.rendered(place, source, texttemplate.Files, func(key string) error {
		if err := document.CheckObjectKey(key); err != nil {
			return errors.New("it comes to " + jsonc.Quoted(key) + ", which is not a key of an object: " + err.Error())
		}
		if err := t.trials.cfg.FileSources().Check(key); err != nil {
			return fmt.Errorf("it comes to %s: %w", jsonc.Quoted(key), err)
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

func (t *trial) certificate(place []any, cert document.Certificate) {
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
				return document.CheckCertificateName(list.name, name)
			})
		}
	}
}
