package gcpfake

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"google.golang.org/protobuf/reflect/protoreflect"
)

// filter is an expression over an entry of a listing, as the parameter filter has it
// on https://docs.cloud.google.com/compute/docs/reference/rest/v1/instances/list:
// comparisons of a field with a value, joined by AND and OR, where AND may be left out;
// or one or several comparisons with the regular expressions of eq and ne. "To filter
// on multiple expressions, provide each separate expression within parentheses."
type filter interface {
	match(protoreflect.Message) (bool, error)
}

type everything struct{}

func (everything) match(protoreflect.Message) (bool, error) { return true, nil }

type both struct{ a, b filter }

func (f both) match(m protoreflect.Message) (bool, error) {
	if ok, err := f.a.match(m); err != nil || !ok {
		return false, err
	}
	return f.b.match(m)
}

type either struct{ a, b filter }

func (f either) match(m protoreflect.Message) (bool, error) {
	if ok, err := f.a.match(m); err != nil || ok {
		return ok, err
	}
	return f.b.match(m)
}

type not struct{ a filter }

func (f not) match(m protoreflect.Message) (bool, error) {
	ok, err := f.a.match(m)
	return !ok, err
}

// comparison is one field, an operator and a value.
type comparison struct{ path, op, value string }

func (f comparison) match(m protoreflect.Message) (bool, error) {
	has, found, err := field(m, strings.Split(f.path, "."))
	if err != nil {
		return false, invalidField("filter", f.path+" "+f.op+" "+f.value, "%v", err)
	}
	switch f.op {
	case "=":
		return found && has == f.value, nil
	case "!=":
		return has != f.value, nil
	case ":":
		return found && (f.value == "*" || strings.Contains(has, f.value)), nil
	case "eq", "ne":
		re, err := regexp.Compile("^(?:" + f.value + ")$")
		if err != nil {
			return false, invalidField("filter", f.value, "%v", err)
		}
		return re.MatchString(has) == (f.op == "eq"), nil
	}
	return ordered(has, f.op, f.value), nil
}

// ordered compares as numbers where both are, else as text.
func ordered(a, op, b string) bool {
	x, errX := strconv.ParseFloat(a, 64)
	y, errY := strconv.ParseFloat(b, 64)
	less, equal := a < b, a == b
	if errX == nil && errY == nil {
		less, equal = x < y, x == y
	}
	switch op {
	case "<":
		return less
	case "<=":
		return less || equal
	case ">":
		return !less && !equal
	default:
		return !less
	}
}

// field reads what a path leads to, as text. Fields that hold several entries are
// refused: what a filter says of them is not documented.
func field(m protoreflect.Message, path []string) (text string, found bool, err error) {
	f := m.Descriptor().Fields().ByJSONName(path[0])
	switch {
	case f == nil:
		return "", false, fmt.Errorf("there is no field %q", path[0])
	case f.IsMap() && len(path) == 2:
		v := m.Get(f).Map().Get(protoreflect.ValueOfString(path[1]).MapKey())
		if !v.IsValid() {
			return "", false, nil
		}
		return v.String(), true, nil
	case f.IsList() || f.IsMap():
		return "", false, fmt.Errorf("field %q holds several entries", path[0])
	case f.Message() != nil && len(path) > 1:
		return field(m.Get(f).Message(), path[1:])
	case f.Message() != nil || len(path) > 1:
		return "", false, fmt.Errorf("field %q cannot be compared", strings.Join(path, "."))
	case f.Enum() != nil:
		v := f.Enum().Values().ByNumber(m.Get(f).Enum())
		return string(v.Name()), m.Has(f), nil
	}
	return m.Get(f).String(), m.Has(f), nil
}

// token is a word of an expression.
var token = regexp.MustCompile(`^\s*(?:(\(|\)|!=|<=|>=|=|<|>|:)|"((?:[^"\\]|\\.)*)"|'((?:[^'\\]|\\.)*)'|([^\s()=!<>:"']+))`)

// parser reads an expression from left to right.
type parser struct {
	text  string // the whole
	rest  string
	word  string // the next one; "" at the end
	quote bool   // it is a quoted value
}

// parseFilter reads an expression; the empty one lets everything through.
func parseFilter(text string) (filter, error) {
	p := &parser{text: text, rest: text}
	if err := p.next(); err != nil || p.end() {
		return everything{}, err
	}
	f, err := p.all()
	if err == nil && !p.end() {
		err = p.wrong("%q is not expected", p.word)
	}
	return f, err
}

func (p *parser) end() bool { return p.word == "" && !p.quote }

func (p *parser) wrong(format string, args ...any) error {
	return invalidField("filter", p.text, "Invalid list filter expression: %s.", fmt.Sprintf(format, args...))
}

func (p *parser) next() error {
	p.word, p.quote = "", false
	if strings.TrimSpace(p.rest) == "" {
		return nil
	}
	m := token.FindStringSubmatch(p.rest)
	if m == nil {
		return p.wrong("%q cannot be read", p.rest)
	}
	p.rest = p.rest[len(m[0]):]
	p.word = m[1] + m[2] + m[3] + m[4]
	p.quote = m[1] == "" && m[4] == ""
	return nil
}

// is reports whether the next word is one of those, and not a value in quotes.
func (p *parser) is(words ...string) bool {
	for _, w := range words {
		if !p.quote && p.word == w {
			return true
		}
	}
	return false
}

// all reads what is joined by AND, or stands side by side. OR binds more tightly.
func (p *parser) all() (filter, error) {
	f, err := p.alternatives()
	for err == nil && !p.end() && !p.is(")") {
		if p.is("AND") {
			if err = p.next(); err != nil {
				break
			}
		}
		var g filter
		if g, err = p.alternatives(); err == nil {
			f, err = both{f, g}, p.apart(f, g)
		}
	}
	return f, err
}

func (p *parser) alternatives() (filter, error) {
	f, err := p.term()
	for err == nil && p.is("OR") {
		if err = p.next(); err != nil {
			break
		}
		var g filter
		if g, err = p.term(); err == nil {
			f, err = either{f, g}, p.apart(f, g)
		}
	}
	return f, err
}

// apart returns an error unless each of several expressions is in parentheses.
func (p *parser) apart(several ...filter) error {
	for _, f := range several {
		if c, bare := f.(comparison); bare {
			return p.wrong("%s %s ... is one of several expressions and not in parentheses", c.path, c.op)
		}
	}
	return nil
}

// enclosed is an expression in parentheses.
type enclosed struct{ filter }

func (p *parser) term() (filter, error) {
	switch {
	case p.is("NOT"):
		if err := p.next(); err != nil {
			return nil, err
		}
		f, err := p.term()
		return not{f}, err
	case p.is("("):
		if err := p.next(); err != nil {
			return nil, err
		}
		f, err := p.all()
		if err == nil && !p.is(")") {
			err = p.wrong("a parenthesis is not closed")
		}
		if err != nil {
			return nil, err
		}
		return enclosed{f}, p.next()
	}
	return p.comparison()
}

func (p *parser) comparison() (filter, error) {
	f := comparison{path: p.word}
	if p.end() || p.quote {
		return nil, p.wrong("a field is expected")
	}
	if err := p.next(); err != nil {
		return nil, err
	}
	if !p.is("=", "!=", "<", ">", "<=", ">=", ":", "eq", "ne") {
		return nil, p.wrong("an operator is expected after %s", f.path)
	}
	f.op = p.word
	if err := p.next(); err != nil {
		return nil, err
	}
	if p.end() || p.is("(", ")", "=", ":") {
		return nil, p.wrong("a value is expected after %s %s", f.path, f.op)
	}
	f.value = p.word
	return f, p.next()
}
