package config

import (
	"maps"
	"slices"
	"strings"
	"time"

	"nstance.dev/server/config/jsonc"
)

// checker looks at what the values of a decoded configuration mean. It goes on
// after each problem, so that all of them are found.
type checker struct {
	cfg      *Config
	doc      *jsonc.Document
	opts     LoadOptions
	problems Problems
	warnings Problems
	reported map[string]bool // paths whose values could not be decoded
	trials   *trials
	names    map[string][]string // of what references name, by what it is; sorted
}

// maxProblems is how many are worth listing.
const maxProblems = 1000

func newChecker(cfg *Config, doc *jsonc.Document, opts LoadOptions, problems Problems) *checker {
	c := &checker{cfg: cfg, doc: doc, opts: opts, problems: problems,
		reported: map[string]bool{}, trials: newTrials(cfg), names: map[string][]string{}}
	for _, p := range problems {
		c.reported[p.Path] = true
	}
	return c
}

func (c *checker) config() {
	var root jsonc.Path
	c.server(root.Key("server"))
	c.tenants(root.Key("tenants"))
	c.loadBalancers(root.Key("load_balancers"))
	c.images(root.Key("images"))
	c.certificates(root.Key("certificates"))
	c.defaults(root.Key("defaults"))
	c.templates(root.Key("templates"))
	c.groups(root.Key("groups"))
	c.ownership()
	c.rendering()
}

// add reports a problem with a value, unless the value was already found to be
// of the wrong type: what it means can't be judged then.
func (c *checker) add(path jsonc.Path, message, remedy string) {
	if len(c.problems) < maxProblems && !c.silent(path) {
		c.problems = append(c.problems, c.doc.Problem(path, message, remedy))
	}
}

// addKey reports a problem with the name of a value.
func (c *checker) addKey(path jsonc.Path, message, remedy string) {
	if len(c.problems) < maxProblems && !c.silent(path) {
		c.problems = append(c.problems, c.doc.KeyProblem(path, message, remedy))
	}
}

func (c *checker) warn(path jsonc.Path, message, remedy string) {
	c.warnings = append(c.warnings, c.doc.Problem(path, message, remedy))
}

// warnKey is warn at the name of a value.
func (c *checker) warnKey(path jsonc.Path, message, remedy string) {
	c.warnings = append(c.warnings, c.doc.KeyProblem(path, message, remedy))
}

func (c *checker) silent(path jsonc.Path) bool {
	for p, ok := path, true; ok; p, ok = p.Parent() {
		if c.reported[p.String()] {
			return true
		}
	}
	return false
}

// required reports a missing text.
func (c *checker) required(path jsonc.Path, value, remedy string) bool {
	if value == "" {
		c.add(path, "required", remedy)
	}
	return value != ""
}

// oneOf reports a value that is not among the known ones; an empty one is left
// to required.
func (c *checker) oneOf(path jsonc.Path, value string, known ...string) bool {
	if value == "" || slices.Contains(known, value) {
		return true
	}
	remedy := "known are " + strings.Join(known, ", ")
	if near := jsonc.Nearest(value, known); near != "" {
		remedy = "did you mean \"" + near + "\"? " + remedy
	}
	c.add(path, quoted(value)+" is not known", remedy)
	return false
}

// reference reports a name that stands for nothing.
func reference[V any](c *checker, path jsonc.Path, what, name string, known map[string]V) bool {
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
		remedy = "did you mean " + quoted(near) + "?"
	}
	c.add(path, "there is no "+what+" "+quoted(name), remedy)
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
func (c *checker) usable(what string, names []string) []string {
	switch what {
	case "tenant":
		return slices.Insert(names, 0, DefaultTenant)
	case "certificate":
		return slices.DeleteFunc(names, func(key string) bool { return key == CertificateCA })
	case "load balancer":
		return slices.DeleteFunc(names, func(key string) bool { return c.cfg.LoadBalancers[key].Provider != c.cfg.Server.Provider.Kind })
	}
	return names
}

// maxSuggested is how many names are looked through for the one that was meant.
const maxSuggested = 200

// listed gives names as they stand in a message.
func listed(names []string) string {
	return shorten(strings.Join(names[:min(len(names), maxSuggested)], ", "))
}

func (c *checker) number(path jsonc.Path, n, low, high int) {
	if n < low || n > high {
		c.add(path, decimal(n)+" is out of range", "from "+decimal(low)+" to "+decimal(high))
	}
}

// between reports a duration outside of its limits; a high of 0 is none.
func (c *checker) between(path jsonc.Path, d Duration, low, high time.Duration) {
	switch {
	case d.Std() < low:
		c.add(path, d.String()+" is too short", "at least "+Duration(low).String())
	case high > 0 && d.Std() > high:
		c.add(path, d.String()+" is too long", "at most "+Duration(high).String())
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
