package checks

import (
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"nstance.dev/protos/identity"
	"nstance.dev/server/config/document"
	"nstance.dev/server/config/dryrun"
	"nstance.dev/server/config/effective"
	"nstance.dev/server/config/jsonc"
	"nstance.dev/server/driver"
)

// Options are what the checks know besides the document. The zero value checks what can be
// checked without knowing more.
type Options struct {
	// Shard is what server.shard must be; empty is any.
	Shard string
	// Storage is the kind of the store, s3, gcs or file, where it sets limits to
	// the intervals of elections; empty sets none.
	Storage string
	// Program are the rules of the provider that the program is built for; nil: it serves none.
	Program *driver.Rules
	// RulesOf gives the rules of the provider of a kind; nil: they are not known.
	RulesOf func(kind string) *driver.Rules
}

// report collects what is wrong with a document and what is likely a mistake, at the places that it
// has in the text.
type report struct {
	cfg      *effective.Config
	doc      *jsonc.Document
	opts     Options
	problems jsonc.Problems
	warnings jsonc.Problems
	reported map[string]bool     // paths whose values could not be decoded
	names    map[string][]string // of what references name, by what it is; sorted
}

// maxProblems is how many are worth listing.
const maxProblems = 1000

// newReport begins with what could not be decoded.
func newReport(cfg *effective.Config, doc *jsonc.Document, opts Options, problems jsonc.Problems) *report {
	r := &report{cfg: cfg, doc: doc, opts: opts, problems: problems, reported: map[string]bool{}, names: map[string][]string{}}
	for _, p := range problems {
		r.reported[p.Path] = true
	}
	return r
}

// serverCheck looks at the shard itself and at its tenants.
type serverCheck struct{ *report }

// machineCheck looks at what machines are made of: templates, groups, and what they name.
type machineCheck struct {
	*report
	trials *dryrun.Trials
}

// ownerCheck looks at what belongs to which tenants.
type ownerCheck struct {
	*report
	trials *dryrun.Trials
}

// add reports a problem with a value, unless the value was already found to be
// of the wrong type: what it means can't be judged then.
func (c *report) add(path jsonc.Path, message, remedy string) {
	if len(c.problems) < maxProblems && !c.silent(path) {
		c.problems = append(c.problems, c.doc.Problem(path, message, remedy))
	}
}

// addKey reports a problem with the name of a value.
func (c *report) addKey(path jsonc.Path, message, remedy string) {
	if len(c.problems) < maxProblems && !c.silent(path) {
		c.problems = append(c.problems, c.doc.KeyProblem(path, message, remedy))
	}
}

func (c *report) warn(path jsonc.Path, message, remedy string) {
	c.warnings = append(c.warnings, c.doc.Problem(path, message, remedy))
}

// warnKey is warn at the name of a value.
func (c *report) warnKey(path jsonc.Path, message, remedy string) {
	c.warnings = append(c.warnings, c.doc.KeyProblem(path, message, remedy))
}

func (c *report) silent(path jsonc.Path) bool {
	for p, ok := path, true; ok; p, ok = p.Parent() {
		if c.reported[p.String()] {
			return true
		}
	}
	return false
}

// required reports a missing text.
func (c *report) required(path jsonc.Path, value, remedy string) bool {
	if value == "" {
		c.add(path, "required", remedy)
	}
	return value != ""
}

// oneOf reports a value that is not among the known ones; an empty one is left
// to required.
func (c *report) oneOf(path jsonc.Path, value string, known ...string) bool {
	if value == "" || slices.Contains(known, value) {
		return true
	}
	remedy := "known are " + strings.Join(known, ", ")
	if near := jsonc.Nearest(value, known); near != "" {
		remedy = "did you mean \"" + near + "\"? " + remedy
	}
	c.add(path, jsonc.Quoted(value)+" is not known", remedy)
	return false
}

// reference reports a name that stands for nothing.
func reference[V any](c *report, path jsonc.Path, what, name string, known map[string]V) bool {
	if _, ok := known[name]; ok {
		return true
	}
	if len(c.problems) >= maxProblems || c.silent(section(what)) {
		return false // what could be named is unknown, and that was said
	}
	names, ok := c.names[what]
	if !ok {
		names = c.usable(what, slices.Sorted(maps.Keys(known)))
		c.names[what] = names
	}
	remedy := "there is none at all"
	if len(names) > 0 {
		remedy = "there are " + listed(names)
	}
	if near := jsonc.Nearest(name, names[:min(len(names), maxSuggested)]); near != "" {
		remedy = "did you mean " + jsonc.Quoted(near) + "?"
	}
	c.add(path, "there is no "+what+" "+jsonc.Quoted(name), remedy)
	return false
}

// section is the place of what a reference names.
func section(what string) jsonc.Path {
	var root jsonc.Path
	switch what {
	case "subnet pool":
		return root.Key("server").Key("subnet_pools")
	case "load balancer":
		return root.Key("load_balancers")
	default: // tenant, template, image, certificate
		return root.Key(what + "s")
	}
}

// usable are the names that a reference may have: of those that are configured, and
// "default" among the tenants.
func (c *report) usable(what string, names []string) []string {
	switch what {
	case "tenant":
		return slices.Insert(names, 0, document.DefaultTenant)
	case "certificate":
		return slices.DeleteFunc(names, func(key string) bool { return key == document.CertificateCA })
	case "load balancer":
		return slices.DeleteFunc(names, func(key string) bool { return c.cfg.LoadBalancers[key].Provider != c.cfg.Server.Provider.Kind })
	}
	return names
}

// maxSuggested is how many names are looked through for the one that was meant.
const maxSuggested = 200

// listed gives names as they stand in a message.
func listed(names []string) string {
	return jsonc.Short(strings.Join(names[:min(len(names), maxSuggested)], ", "))
}

func (c *report) number(path jsonc.Path, n, low, high int) {
	if n < low || n > high {
		c.add(path, strconv.Itoa(n)+" is out of range", "from "+strconv.Itoa(low)+" to "+strconv.Itoa(high))
	}
}

// between reports a duration outside of its limits; a high of 0 is none.
func (c *report) between(path jsonc.Path, d document.Duration, low, high time.Duration) {
	switch {
	case d.Std() < low:
		c.add(path, d.String()+" is too short", "at least "+document.Duration(low).String())
	case high > 0 && d.Std() > high:
		c.add(path, d.String()+" is too long", "at most "+document.Duration(high).String())
	}
}

// sorted walks a map in the order of its keys.
func sorted[V any](m map[string]V, yield func(string, V)) {
	for _, key := range slices.Sorted(maps.Keys(m)) {
		yield(key, m[key])
	}
}

// either lists words of which one is wanted.
func either(words []string) string {
	last := len(words) - 1
	return strings.Join(words[:last], ", ") + " or " + words[last]
}

// unique reports names that stand in a list twice.
func (c *report) unique(path jsonc.Path, list []string) {
	seen := make(map[string]bool, len(list))
	for i, name := range list {
		if seen[name] {
			c.add(path.Index(i), jsonc.Quoted(name)+" stands here twice", "take one of them out")
		}
		seen[name] = true
	}
}

// reserved warns of what may be written and has no effect yet.
func (c *report) reserved(path jsonc.Path) {
	if c.doc.Has(path) {
		c.warnKey(path, "reserved: no effect before tenant sleep", "take it out until then")
	}
}

// name checks an identifier.
func (c *report) name(path jsonc.Path, name string) bool {
	err := identity.ValidateName(name)
	if err != nil {
		c.addKey(path, err.Error(), `use a to z, 0 to 9 and single "-", at most 32 characters, such as "us-west-2a"`)
	}
	return err == nil
}

func (c *report) atLeastOne(path jsonc.Path, n int) {
	c.number(path, n, 1, 1_000_000)
}

func (c *report) hours(path jsonc.Path, h document.Hours, most int) {
	c.number(path, int(h), 1, most)
}

// found reports what the provider's rules say of an object.
func (c *report) found(path jsonc.Path, findings []driver.Finding) {
	for _, f := range findings {
		at := path
		for _, step := range f.Path {
			switch step := step.(type) {
			case string:
				at = at.Key(step)
			case int:
				at = at.Index(step)
			}
		}
		if f.Reserved {
			c.reserved(at)
			continue
		}
		c.add(at, f.Message, f.Remedy)
	}
}

// foreign reports keys that have no meaning beside what the value is.
func (c *report) foreign(path jsonc.Path, beside string, names ...string) {
	for _, name := range names {
		if c.doc.Has(path.Key(name)) {
			c.addKey(path.Key(name), "has no meaning with "+beside, "take it out")
		}
	}
}
