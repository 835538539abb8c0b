package aws

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"
)

// fields fills the SDK's structures from JSON values, by the SDK's own names and
// types, so that whatever the SDK can say an argument can.
//
// Text stands for a number or a boolean too, since the value of a template is
// text. With templates, text that is still a template stands for anything that is
// not an object or a list; it is checked and not set.
type fields struct{ templates bool }

// set fills to from a JSON value; null leaves it as it is. at is the path of the
// value, for the error.
func (f fields) set(at string, to reflect.Value, from any) error {
	switch {
	case from == nil:
		return nil
	case to.Kind() == reflect.Pointer:
		v := reflect.New(to.Type().Elem())
		if err := f.set(at, v.Elem(), from); err != nil {
			return err
		}
		to.Set(v)
		return nil
	case to.Kind() == reflect.Slice:
		return f.setList(at, to, from)
	case to.Kind() == reflect.Struct && to.Type() != reflect.TypeFor[time.Time]():
		return f.setObject(at, to, from)
	default:
		return f.setScalar(at, to, from)
	}
}

func (f fields) setObject(at string, to reflect.Value, from any) error {
	object, ok := from.(map[string]any)
	if !ok {
		return wrong(at, from, "an object")
	}
	for _, name := range slices.Sorted(maps.Keys(object)) {
		path := at + "." + name
		field, ok := to.Type().FieldByName(name)
		if !ok || !field.IsExported() {
			return fmt.Errorf("%s: unknown; %s", strings.TrimPrefix(path, "."), known(to.Type(), name))
		}
		if err := f.set(path, to.FieldByIndex(field.Index), object[name]); err != nil {
			return err
		}
	}
	return nil
}

func (f fields) setList(at string, to reflect.Value, from any) error {
	list, ok := from.([]any)
	if !ok {
		return wrong(at, from, "a list")
	}
	to.Set(reflect.MakeSlice(to.Type(), len(list), len(list)))
	for i, value := range list {
		if err := f.set(fmt.Sprintf("%s[%d]", at, i), to.Index(i), value); err != nil {
			return err
		}
	}
	return nil
}

func (f fields) setScalar(at string, to reflect.Value, from any) error {
	text, isText := from.(string)
	if isText && f.templates && strings.Contains(text, "{{") {
		return nil
	}
	if !isText {
		text = fmt.Sprint(from) // a boolean, a json.Number, or Go's own number
	}
	switch to.Kind() {
	case reflect.String:
		return setText(at, to, from)
	case reflect.Bool:
		v, err := strconv.ParseBool(text)
		if err != nil {
			return wrong(at, from, "true or false")
		}
		to.SetBool(v)
	case reflect.Int32, reflect.Int64:
		v, err := wholeNumber(from, text)
		if err != nil || to.OverflowInt(v) {
			return wrong(at, from, "a whole number")
		}
		to.SetInt(v)
	case reflect.Float64:
		v, err := strconv.ParseFloat(text, 64)
		if err != nil {
			return wrong(at, from, "a number")
		}
		to.SetFloat(v)
	case reflect.Struct:
		v, err := time.Parse(time.RFC3339, text)
		if err != nil {
			return wrong(at, from, "a time such as 2026-01-31T15:04:05Z")
		}
		to.Set(reflect.ValueOf(v))
	default:
		return fmt.Errorf("%s: has no form in JSON", at)
	}
	return nil
}

// setText sets a string, which may be one of a fixed set.
func setText(at string, to reflect.Value, from any) error {
	text, ok := from.(string)
	if !ok {
		return wrong(at, from, "text")
	}
	if allowed := values(to); len(allowed) > 0 && !slices.Contains(allowed, text) {
		return wrong(at, from, "one of "+strings.Join(allowed, ", "))
	}
	to.SetString(text)
	return nil
}

// values are those of the SDK's enumeration that v is of; nil: any text.
func values(v reflect.Value) []string {
	method := v.MethodByName("Values")
	if !method.IsValid() {
		return nil
	}
	list := method.Call(nil)[0]
	texts := make([]string, list.Len())
	for i := range texts {
		texts[i] = list.Index(i).String()
	}
	return texts
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
func known(t reflect.Type, name string) string {
	var names []string
	for i := range t.NumField() {
		field := t.Field(i)
		if !field.IsExported() {
			continue
		}
		if strings.EqualFold(field.Name, name) {
			return fmt.Sprintf("did you mean %q?", field.Name)
		}
		names = append(names, field.Name)
	}
	return "it may be " + strings.Join(names, ", ")
}
