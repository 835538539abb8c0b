package dryrun

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	"nstance.dev/server/config/document"
	"nstance.dev/server/config/effective"
	"nstance.dev/server/config/texttemplate"
)

// Trials renders templates with made-up data and remembers what came of it: a thousand
// groups may share one script, and most have the same variables for it.
type Trials struct {
	cfg    *effective.Config
	images map[string]string // made up, by the keys of the configuration
	parsed map[string]parsedTemplate
	tried  map[trialKey]error
	groups map[string]*groupTrials // of groups with the arguments of their template, by its key
}

// groupTrials is what came of the groups of one template.
type groupTrials struct {
	named  []string // the variables that its texts name; sorted
	failed map[string][]Failure
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

// New begins trials for a configuration.
func New(cfg *effective.Config) *Trials {
	return &Trials{cfg: cfg, images: sampleImages(cfg), parsed: map[string]parsedTemplate{}, tried: map[trialKey]error{}, groups: map[string]*groupTrials{}}
}

// Parse gives the template of a text.
func (t *Trials) Parse(text string) (*texttemplate.Template, error) {
	if p, ok := t.parsed[text]; ok {
		return p.template, p.err
	}
	template, err := texttemplate.Parse("template", text)
	t.parsed[text] = parsedTemplate{template, err}
	return template, err
}

// Try says why a text does not render with these variables, or why the cloud would not
// take the user data that comes of it.
func (t *Trials) Try(text string, vars document.Vars, scope texttemplate.Scope) error {
	template, err := t.Parse(text)
	if err != nil || scope != texttemplate.Userdata && !strings.Contains(text, "{{") {
		return err
	}
	if !template.NamesVars() {
		return t.execute(template, vars, scope)
	}
	key := trialKey{template, scope, valuesOf(vars, template.Vars())}
	outcome, known := t.tried[key]
	if !known {
		outcome = t.execute(template, vars, scope)
		t.tried[key] = outcome
	}
	return outcome
}

// Group gives what of a group does not render. A plain group has the arguments of its
// template: where nothing but the variables differs from another such group of the template,
// and none that its texts name, the outcome is the same, and is not found out again.
func (t *Trials) Group(g *effective.Group, plain bool) []Failure {
	known := t.groups[g.Template]
	if plain && known != nil {
		if failed, ok := known.failed[valuesOf(g.Vars, known.named)]; ok {
			return failed
		}
	}
	all := t.all(g)
	if !plain || all.opaque {
		return all.failed
	}
	if known == nil {
		known = &groupTrials{named: slices.Sorted(maps.Keys(all.named)), failed: map[string][]Failure{}}
		t.groups[g.Template] = known
	}
	known.failed[valuesOf(g.Vars, known.named)] = all.failed
	return all.failed
}

func (t *Trials) execute(template *texttemplate.Template, vars document.Vars, scope texttemplate.Scope) error {
	out, err := template.Execute(texttemplate.Sample(vars, t.images), scope, t.limit(scope))
	if err != nil || scope != texttemplate.Userdata {
		return err
	}
	return t.cfg.Rules.CheckUserdata(out)
}

func (t *Trials) limit(scope texttemplate.Scope) int {
	if scope == texttemplate.Userdata {
		return t.cfg.MaxUserdata()
	}
	return texttemplate.MaxSource
}

// valuesOf is one text for the values of the named variables, those that are missing
// among them.
func valuesOf(vars document.Vars, names []string) string {
	var b strings.Builder
	for _, name := range names {
		if value, ok := vars[name]; ok {
			b.WriteString(strconv.Quote(value))
		}
		b.WriteByte(',')
	}
	return b.String()
}

func sampleImages(cfg *effective.Config) map[string]string {
	images := make(map[string]string, len(cfg.Images))
	for key := range cfg.Images {
		images[key] = "image-sample"
	}
	return images
}
