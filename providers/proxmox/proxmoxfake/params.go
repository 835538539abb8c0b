package proxmoxfake

import (
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// maxBody is the most that the real API server reads of a request that is no upload.
const maxBody = 64 << 10

// param is the schema of one parameter.
type param struct {
	kind     string // string, integer, boolean, number
	required bool
	min, max int // of an integer; 0, 0: none
	enum     []string
	format   *regexp.Regexp
	like     string // what format stands for, in the API's words
	length   int    // of a string; 0: any
	grant    string // the privilege that setting it takes
}

// schema is the parameters of a call by name. A name that ends in [n] stands for that
// name with any number.
type schema map[string]param

var (
	dnsName  = regexp.MustCompile(`^([a-zA-Z0-9]([a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?)(\.([a-zA-Z0-9]([a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?))*$`)
	configID = regexp.MustCompile(`^[a-zA-Z][a-zA-Z0-9_-]+(,[a-zA-Z][a-zA-Z0-9_-]+)*$`)
	tagList  = regexp.MustCompile(`^[;, ]*([a-zA-Z0-9_][a-zA-Z0-9_+.-]*([;, ]+|$))*$`)
	numbered = regexp.MustCompile(`^([a-z]+)(0|[1-9][0-9]?)$`)
)

var vmidParam = param{kind: "integer", min: 100, max: 999999999}

func (s schema) find(name string) (param, bool) {
	if p, ok := s[name]; ok {
		return p, true
	}
	if m := numbered.FindStringSubmatch(name); m != nil {
		p, ok := s[m[1]+"[n]"]
		return p, ok
	}
	return param{}, false
}

// check returns what the API says of the parameters that do not fit.
func (s schema) check(values map[string]string) error {
	wrong := map[string]string{}
	for name, value := range values {
		p, known := s.find(name)
		if !known {
			wrong[name] = "property is not defined in schema and the schema does not allow additional properties"
		} else if objection := p.check(value); objection != "" {
			wrong[name] = objection
		}
	}
	for name, p := range s {
		if _, given := values[name]; p.required && !given {
			wrong[name] = "property is missing and it is not optional"
		}
	}
	if len(wrong) > 0 {
		return badParams(wrong)
	}
	return nil
}

func (p param) check(value string) string {
	switch p.kind {
	case "integer":
		n, err := strconv.Atoi(value)
		switch {
		case err != nil:
			return fmt.Sprintf("type check ('integer') failed - got '%s'", value)
		case p.max > 0 && n > p.max:
			return fmt.Sprintf("value must have a maximum value of %d", p.max)
		case n < p.min:
			return fmt.Sprintf("value must have a minimum value of %d", p.min)
		}
	case "boolean":
		if _, ok := truth(value); !ok {
			return fmt.Sprintf("type check ('boolean') failed - got '%s'", value)
		}
	case "number":
		if _, err := strconv.ParseFloat(value, 64); err != nil {
			return fmt.Sprintf("type check ('number') failed - got '%s'", value)
		}
	}
	switch {
	case len(p.enum) > 0 && !slices.Contains(p.enum, value):
		return fmt.Sprintf("value '%s' does not have a value in the enumeration '%s'", value, strings.Join(p.enum, ", "))
	case p.format != nil && !p.format.MatchString(value):
		return "invalid format - value does not look like a valid " + p.like
	case p.length > 0 && len(value) > p.length:
		return fmt.Sprintf("value may only be %d characters long", p.length)
	}
	return ""
}

// truth reads a boolean in one of the spellings that the API takes.
func truth(value string) (on, ok bool) {
	switch strings.ToLower(value) {
	case "1", "on", "yes", "true":
		return true, true
	case "0", "off", "no", "false":
		return false, true
	}
	return false, false
}

// read reads the parameters of a request, from the query or the body.
func read(r *http.Request) (map[string]string, error) {
	values := map[string]string{}
	for name, all := range r.URL.Query() {
		values[name] = all[0]
	}
	if r.Method == http.MethodGet || r.Method == http.MethodDelete {
		return values, nil
	}
	if r.ContentLength > maxBody {
		return nil, &failure{status: http.StatusNotImplemented, reason: "for data too large"}
	}
	if strings.HasPrefix(r.Header.Get("Content-Type"), "application/json") {
		return values, readJSON(r, values)
	}
	if err := r.ParseForm(); err != nil {
		return nil, &failure{status: http.StatusBadRequest, reason: "malformed form"}
	}
	for name, all := range r.PostForm {
		values[name] = all[0]
	}
	return values, nil
}

func readJSON(r *http.Request, into map[string]string) error {
	var body map[string]any
	decoder := json.NewDecoder(r.Body)
	decoder.UseNumber()
	if err := decoder.Decode(&body); err != nil {
		return &failure{status: http.StatusBadRequest, reason: "unable to parse JSON body"}
	}
	for name, value := range body {
		switch v := value.(type) {
		case bool:
			into[name] = map[bool]string{true: "1", false: "0"}[v]
		case string, json.Number:
			into[name] = fmt.Sprint(v)
		case nil:
		default:
			return badParam(name, "type check ('string') failed - got %T", v)
		}
	}
	return nil
}
