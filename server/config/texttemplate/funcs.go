package texttemplate

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"text/template"
)

// functions are those that a template may call, drawing on a budget. Those of
// text/template that make text are replaced by ones that draw on it too: a
// loop around {{ $x = print $x $x }} would else double its way through the
// memory.
func functions(b *budget) template.FuncMap {
	return template.FuncMap{
		loopMeterName: func() (string, error) { return b.step(1) },
		callMeterName: func() (string, error) { return b.step(callSteps) },

		"default":   defaultTo,
		"quote":     func(v any) (string, error) { return b.keep(toJSON(text(v))) },
		"squote":    func(v any) (string, error) { return b.replace(text(v), "'", `'\''`, "'") },
		"indent":    func(n int, s string) (string, error) { return b.indent(n, s, "") },
		"nindent":   func(n int, s string) (string, error) { return b.indent(n, s, "\n") },
		"trim":      strings.TrimSpace,
		"lower":     func(s string) (string, error) { return b.keep(strings.ToLower(s), nil) },
		"upper":     func(s string) (string, error) { return b.keep(strings.ToUpper(s), nil) },
		"replace":   func(old, replacement, s string) (string, error) { return b.replace(s, old, replacement, "") },
		"join":      b.join,
		"split":     b.split,
		"b64enc":    func(s string) (string, error) { return b.keep(base64.StdEncoding.EncodeToString([]byte(s)), nil) },
		"b64dec":    b.decode,
		"toJson":    func(v any) (string, error) { return b.keep(toJSON(v)) },
		"sha256sum": sha256sum,

		"print":    func(args ...any) (string, error) { return b.print(fmt.Sprint, args) },
		"println":  func(args ...any) (string, error) { return b.print(fmt.Sprintln, args) },
		"printf":   b.printf,
		"html":     func(args ...any) (string, error) { return b.print(template.HTMLEscaper, args) },
		"js":       func(args ...any) (string, error) { return b.print(template.JSEscaper, args) },
		"urlquery": func(args ...any) (string, error) { return b.print(template.URLQueryEscaper, args) },
	}
}

// keep charges a result that is at most a few times its argument.
func (b *budget) keep(s string, err error) (string, error) {
	if err != nil {
		return "", err
	}
	return s, b.grow(len(s))
}

func defaultTo(fallback, value any) any {
	if truth, _ := template.IsTrue(value); truth {
		return value
	}
	return fallback
}

func text(v any) string {
	if s, ok := v.(string); ok {
		return s
	}
	return fmt.Sprint(v)
}

func toJSON(v any) (string, error) {
	var out strings.Builder
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return "", errors.New("the value has no form in JSON")
	}
	return strings.TrimSuffix(out.String(), "\n"), nil
}

// replace charges before it works: the result may be longer by any factor.
func (b *budget) replace(s, old, replacement, around string) (string, error) {
	n := strings.Count(s, old)
	if err := b.grow(len(s) + n*max(0, len(replacement)-len(old))); err != nil {
		return "", err
	}
	return around + strings.ReplaceAll(s, old, replacement) + around, nil
}

func (b *budget) indent(spaces int, s, before string) (string, error) {
	if spaces < 0 || spaces > 1000 {
		return "", errors.New("an indentation has 0 to 1000 spaces")
	}
	pad := before + strings.Repeat(" ", spaces)
	indented, err := b.replace(s, "\n", "\n"+strings.Repeat(" ", spaces), "")
	return pad + indented, err
}

func (b *budget) join(separator string, list any) (string, error) {
	var parts []string
	switch list := list.(type) {
	case []string:
		parts = list
	case []any:
		for _, v := range list {
			parts = append(parts, text(v))
		}
	default:
		return "", errors.New("join needs a list, such as the result of split")
	}
	size := len(separator) * len(parts)
	for _, p := range parts {
		size += len(p)
	}
	if err := b.grow(size); err != nil {
		return "", err
	}
	return strings.Join(parts, separator), nil
}

func (b *budget) split(separator, s string) ([]string, error) {
	const header = 16 // of each string
	if err := b.grow(len(s) + header*(strings.Count(s, separator)+1)); err != nil {
		return nil, err
	}
	return strings.Split(s, separator), nil
}

func (b *budget) decode(s string) (string, error) {
	out, err := base64.StdEncoding.DecodeString(s)
	if err != nil {
		return "", errors.New("the text is not base64")
	}
	return string(out), b.grow(len(out))
}

func sha256sum(s string) string {
	sum := sha256.Sum256([]byte(s))
	return hex.EncodeToString(sum[:])
}

func (b *budget) print(format func(...any) string, args []any) (string, error) {
	for _, arg := range args {
		if err := b.grow(len(text(arg))); err != nil {
			return "", err
		}
	}
	return b.keep(format(args...), nil)
}

// printf refuses what would let a short format make a long text.
func (b *budget) printf(format string, args ...any) (string, error) {
	if len(format) > 64<<10 || wide(format) {
		return "", errors.New("printf: a width or precision above 999 or given by *, or a format above 64 KiB")
	}
	if strings.Contains(format, "[") && strings.Count(format, "%") > len(args) {
		return "", errors.New("printf: an argument is used more than once")
	}
	return b.print(func(args ...any) string { return fmt.Sprintf(format, args...) }, args)
}

// wide says whether a verb of the format has a star, or a number of four digits
// or more.
func wide(format string) bool {
	for rest := format; ; {
		_, verb, found := strings.Cut(rest, "%")
		if !found {
			return false
		}
		end := strings.IndexFunc(verb, func(r rune) bool { return !strings.ContainsRune("+-# 0123456789.*[]", r) })
		if end < 0 {
			end = len(verb)
		}
		digits := 0
		for _, r := range verb[:end] {
			if r < '0' || r > '9' {
				digits = 0
			} else if digits++; digits > 3 {
				return true
			}
			if r == '*' {
				return true
			}
		}
		// "%%" is a verb too: go on behind its second sign.
		rest = verb[min(end+1, len(verb)):]
		if end == len(verb) {
			return false
		}
	}
}
