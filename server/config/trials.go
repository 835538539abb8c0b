package config

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	"nstance.dev/server/config/texttemplate"
)

// trials renders templates with made-up data and remembers what came of it: a thousand
// groups may share one script, and most have the same variables for it.
type trials struct {
	rules  rules
	images map[string]string // made up, by the keys of the configuration
	parsed map[string]parsedTemplate
	tried  map[trialKey]error
	groups map[string]*groupTrials // of groups with the arguments of their template, by its key
}

// groupTrials is what came of the groups of one template.
type groupTrials struct {
	named  []string // the variables that its texts name; sorted
	failed map[string][]failedTemplate
}

type parsedTemplate struct {
	template *texttemplate.Template
	err      error
}

// trialKey is what the outcome of a trial depends on.
type trialKey struct {
	template *texttemplate.Template
	scope    texttemplate.Scope
	vars     string // the values of those that the template sees
}

func newTrials(cfg *Config) *trials {
	return &trials{rules: cfg.rules, images: cfg.sampleImages(), parsed: map[string]parsedTemplate{}, tried: map[trialKey]error{}, groups: map[string]*groupTrials{}}
}

func (t *trials) parse(text string) (*texttemplate.Template, error) {
	if p, ok := t.parsed[text]; ok {
		return p.template, p.err
	}
	template, err := texttemplate.Parse("template", text)
	t.parsed[text] = parsedTemplate{template, err}
	return template, err
}

// try says why a text does not render with these variables, or why the cloud would not
// take the user data that comes of it.
func (t *trials) try(text string, vars Vars, scope texttemplate.Scope) error {
	template, err := t.parse(text)
	if err != nil || scope != texttemplate.Userdata && !strings.Contains(text, "{{") {
		return err
	}
	if !template.NamesVars() {
		return t.render(template, vars, scope)
	}
	key := trialKey{template, scope, valuesOf(vars, template.Vars())}
	outcome, known := t.tried[key]
	if !known {
		outcome = t.render(template, vars, scope)
		t.tried[key] = outcome
	}
	return outcome
}

// ofGroup gives what of a group does not render. Where nothing but the variables differs
// from another group of the template, and none that its texts name, the outcome is the
// same.
func (t *trials) ofGroup(g *EffectiveGroup, plain bool, cfg *Config) []failedTemplate {
	known := t.groups[g.Template]
	if plain && known != nil {
		if failed, ok := known.failed[valuesOf(g.Vars, known.named)]; ok {
			return failed
		}
	}
	all := g.tryTemplates(cfg, t)
	if !plain || all.opaque {
		return all.failed
	}
	if known == nil {
		known = &groupTrials{named: slices.Sorted(maps.Keys(all.named)), failed: map[string][]failedTemplate{}}
		t.groups[g.Template] = known
	}
	known.failed[valuesOf(g.Vars, known.named)] = all.failed
	return all.failed
}

func (t *trials) render(template *texttemplate.Template, vars Vars, scope texttemplate.Scope) error {
	out, err := template.Execute(texttemplate.Sample(vars, t.images), scope, t.limit(scope))
	if err != nil || scope != texttemplate.Userdata {
		return err
	}
	return t.rules.checkUserdata(out)
}

func (t *trials) limit(scope texttemplate.Scope) int {
	if scope == texttemplate.Userdata {
		return t.rules.maxUserdata()
	}
	return texttemplate.MaxSource
}

// valuesOf is one text for the values of the named variables, those that are missing
// among them.
func valuesOf(vars Vars, names []string) string {
	var b strings.Builder
	for _, name := range names {
		if value, ok := vars[name]; ok {
			b.WriteString(strconv.Quote(value))
		}
		b.WriteByte(',')
	}
	return b.String()
}
