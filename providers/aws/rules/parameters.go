package rules

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// parametersJSON is the table of what RunInstances takes, made from the SDK's types.
//
//go:embed parameters.json
var parametersJSON []byte

const (
	runInstances  = "RunInstancesInput" // the object of the table whose fields are the arguments
	instanceTypes = "InstanceType"      // the enumeration of the types that were there when the SDK was made
)

// table has the objects and enumerations of the SDK, by their names.
type table struct {
	objects map[string]structure
	enums   map[string][]string
}

// structure has the fields of one of the SDK's structures.
type structure struct {
	names []string          // in the SDK's order
	types map[string]string // by name: a name of the table, a type of Go, "time", or "[]" and one of these
}

// sdk is the table. It was checked when it was made.
var sdk = sync.OnceValue(func() table {
	var from struct {
		Objects map[string][]string
		Enums   map[string][]string
	}
	if err := json.Unmarshal(parametersJSON, &from); err != nil {
		panic("parameters.json: " + err.Error())
	}
	t := table{objects: map[string]structure{}, enums: from.Enums}
	for name, fields := range from.Objects {
		o := structure{types: make(map[string]string, len(fields))}
		for _, field := range fields {
			name, typ, _ := strings.Cut(field, " ")
			o.names = append(o.names, name)
			o.types[name] = typ
		}
		t.objects[name] = o
	}
	return t
})

// reader reads JSON values by the SDK's own names and types, so that whatever the SDK can
// say an argument can.
//
// Text stands for a number or a boolean too, since the value of a template is text. With
// templates, text that is still a template stands for anything that is not an object or a
// list, and is read as no text.
type reader struct{ templates bool }

// read gives a value of a type as the SDK's JSON would have it; nil if it is null. at is
// the path of the value, for the error.
func (r reader) read(at, typ string, from any) (any, error) {
	if from == nil {
		return nil, nil
	}
	if of, list := strings.CutPrefix(typ, "[]"); list {
		return r.list(at, of, from)
	}
	if o, is := sdk().objects[typ]; is {
		return r.object(at, o, from)
	}
	return r.scalar(at, typ, from)
}

func (r reader) object(at string, o structure, from any) (any, error) {
	members, ok := from.(map[string]any)
	if !ok {
		return nil, wrong(at, from, "an object")
	}
	made := make(map[string]any, len(members))
	for _, name := range slices.Sorted(maps.Keys(members)) {
		path := at + "." + name
		typ, ok := o.types[name]
		if !ok {
			return nil, fmt.Errorf("%s: unknown; %s", path, o.known(name))
		}
		value, err := r.read(path, typ, members[name])
		if err != nil {
			return nil, err
		}
		if value != nil {
			made[name] = value
		}
	}
	return made, nil
}

func (r reader) list(at, of string, from any) (any, error) {
	items, ok := from.([]any)
	if !ok {
		return nil, wrong(at, from, "a list")
	}
	made := make([]any, len(items))
	for i, item := range items {
		var err error
		if made[i], err = r.read(fmt.Sprintf("%s[%d]", at, i), of, item); err != nil {
			return nil, err
		}
	}
	return made, nil
}

func (r reader) scalar(at, typ string, from any) (any, error) {
	text, isText := from.(string)
	if isText && r.templates && strings.Contains(text, "{{") {
		return "", nil
	}
	if !isText {
		text = fmt.Sprint(from) // a boolean, a json.Number, or Go's own number
	}
	switch typ {
	case "bool":
		v, err := strconv.ParseBool(text)
		if err != nil {
			return nil, wrong(at, from, "true or false")
		}
		return v, nil
	case "int32", "int64":
		v, err := wholeNumber(from, text)
		if err != nil || typ == "int32" && int64(int32(v)) != v {
			return nil, wrong(at, from, "a whole number")
		}
		return v, nil
	case "float64":
		v, err := strconv.ParseFloat(text, 64)
		if err != nil {
			return nil, wrong(at, from, "a number")
		}
		return v, nil
	case "time":
		v, err := time.Parse(time.RFC3339, text)
		if err != nil {
			return nil, wrong(at, from, "a time such as 2026-01-31T15:04:05Z")
		}
		return v.Format(time.RFC3339Nano), nil
	}
	if !isText {
		return nil, wrong(at, from, "text")
	}
	if allowed := sdk().enums[typ]; len(allowed) > 0 && !slices.Contains(allowed, text) {
		return nil, wrong(at, from, "one of "+strings.Join(allowed, ", "))
	}
	return text, nil
}

// wholeNumber reads an integer, which JSON may also write as 8.0 or 1e3.
func wholeNumber(from any, text string) (int64, error) {
	if v, err := strconv.ParseInt(text, 10, 64); err == nil {
		return v, nil
	}
	switch from.(type) {
	case float64, json.Number:
		v, err := strconv.ParseFloat(text, 64)
		if err == nil && v == math.Trunc(v) && math.Abs(v) < 1<<53 {
			return int64(v), nil
		}
	}
	return 0, strconv.ErrSyntax
}

func wrong(at string, is any, must string) error {
	text, err := json.Marshal(is)
	if err != nil || len(text) > 60 {
		return fmt.Errorf("%s: must be %s", at, must)
	}
	return fmt.Errorf("%s: is %s, must be %s", at, text, must)
}

// known says what an unknown name could have been: the one that differs in case
// alone, or else any.
func (o structure) known(name string) string {
	for _, known := range o.names {
		if strings.EqualFold(known, name) {
			return fmt.Sprintf("did you mean %q?", known)
		}
	}
	return "it may be " + strings.Join(o.names, ", ")
}
