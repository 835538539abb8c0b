// Package parameters makes the table of what RunInstances takes from the SDK's own types.
package parameters

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/ec2"
)

// Table gives the JSON that package rules reads: the objects, whose fields are each "NAME
// TYPE" in the order of the SDK, and the enumerations with their values.
func Table() ([]byte, error) {
	t := table{Objects: map[string][]string{}, Enums: map[string][]string{}}
	if err := t.object(reflect.TypeFor[ec2.RunInstancesInput]()); err != nil {
		return nil, err
	}
	var out bytes.Buffer
	e := json.NewEncoder(&out)
	e.SetIndent("", "  ")
	if err := e.Encode(t); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}

type table struct {
	Objects map[string][]string `json:"objects"`
	Enums   map[string][]string `json:"enums"`
}

func (t table) object(of reflect.Type) error {
	t.Objects[of.Name()] = []string{}
	for field := range of.Fields() {
		if !field.IsExported() {
			continue
		}
		name, err := t.typeOf(field.Type)
		if err != nil {
			return fmt.Errorf("%s.%s: %w", of.Name(), field.Name, err)
		}
		t.Objects[of.Name()] = append(t.Objects[of.Name()], field.Name+" "+name)
	}
	return nil
}

// typeOf gives a type by its name in the table, and puts it there.
func (t table) typeOf(of reflect.Type) (string, error) {
	switch kind := of.Kind(); {
	case kind == reflect.Pointer:
		return t.typeOf(of.Elem())
	case kind == reflect.Slice:
		name, err := t.typeOf(of.Elem())
		return "[]" + name, err
	case of == reflect.TypeFor[time.Time]():
		return "time", nil
	case kind == reflect.Struct:
		if _, known := t.Objects[of.Name()]; known {
			return of.Name(), nil
		}
		return of.Name(), t.object(of)
	case kind == reflect.String && of.NumMethod() > 0:
		t.Enums[of.Name()] = values(of)
		return of.Name(), nil
	case kind == reflect.String, kind == reflect.Bool, kind == reflect.Int32, kind == reflect.Int64, kind == reflect.Float64:
		return strings.ToLower(kind.String()), nil
	}
	return "", fmt.Errorf("%s has no form in JSON", of)
}

// values are those of an enumeration of the SDK.
func values(of reflect.Type) []string {
	list := reflect.Zero(of).MethodByName("Values").Call(nil)[0]
	texts := make([]string, list.Len())
	for i := range texts {
		texts[i] = list.Index(i).String()
	}
	return texts
}
