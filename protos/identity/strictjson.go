package identity

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
)

var (
	nonceClaimNames  = fieldNames(reflect.TypeFor[NonceClaims]())
	nonceHeaderNames = fieldNames(reflect.TypeFor[NonceHeader]())
)

// fieldNames returns the names that t's fields have in JSON.
func fieldNames(t reflect.Type) []string {
	var names []string
	for i := range t.NumField() {
		name, _, _ := strings.Cut(t.Field(i).Tag.Get("json"), ",")
		names = append(names, name)
	}
	return names
}

// unmarshalStrict reads one flat JSON object into v, whose fields are called
// names. The standard decoder takes the last of two equal names, and one in
// another case for the same; readers that disagree about either would disagree
// about what was signed, so both are errors here. With only set, so are names
// that are not among names.
func unmarshalStrict(data []byte, v any, names []string, only bool) error {
	d := json.NewDecoder(bytes.NewReader(data))
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return errors.New("it is not a JSON object")
	}
	var seen []string
	for d.More() {
		t, err := d.Token()
		if err != nil {
			return errors.New("it is not a JSON object")
		}
		name, _ := t.(string)
		if err := checkFieldName(name, seen, names, only); err != nil {
			return err
		}
		seen = append(seen, name)
		value, err := d.Token()
		if err != nil {
			return errors.New("it is not a JSON object")
		}
		if _, nested := value.(json.Delim); nested || value == nil {
			return fmt.Errorf("%s is not a string, number or boolean", quote(name))
		}
	}
	if err := json.Unmarshal(data, v); err != nil {
		if e, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
			return fmt.Errorf("%s is a %s, which it must not be", quote(e.Field), strings.SplitN(e.Value, " ", 2)[0])
		}
		return errors.New("it is not one JSON object")
	}
	return nil
}

func checkFieldName(name string, seen, names []string, only bool) error {
	same := func(other string) bool { return strings.EqualFold(name, other) }
	if slices.ContainsFunc(seen, same) {
		return fmt.Errorf("%s comes twice", quote(name))
	}
	if slices.Contains(names, name) {
		return nil
	}
	if slices.ContainsFunc(names, same) {
		return fmt.Errorf("%s must be in lower case", quote(name))
	}
	if only {
		return fmt.Errorf("%s is not known", quote(name))
	}
	return nil
}
