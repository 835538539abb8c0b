package awsfake

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/url"
	"reflect"
	"strconv"
	"strings"
	"time"

	"github.com/aws/smithy-go/middleware"
	smithyhttp "github.com/aws/smithy-go/transport/http"
)

// schema says how the input of one action is written as a query: for every name
// of a parameter, with N in the place of each index, the field that it fills.
type schema map[string]path

// path leads from an input to one of its leaves: the index of a field, or element
// for the members of a list.
type path []int

const element = -1

// learn reads the schema of I off the SDK: each leaf is filled in alone, and the
// query that the SDK makes of it has the name of its parameter.
func learn[I any](serialize func(*I) (url.Values, error)) (schema, error) {
	s := schema{}
	for _, leaf := range leaves(reflect.TypeFor[I](), nil) {
		input := new(I)
		field := reflect.ValueOf(input).Elem()
		for _, step := range leaf {
			field = descend(field, step, 0)
		}
		field.Set(sample(field.Type()))
		values, err := serialize(input)
		if err != nil {
			return nil, fmt.Errorf("schema of %T: %w", input, err)
		}
		for name := range values {
			if name != "Action" && name != "Version" {
				pattern, _ := unindexed(name)
				s[pattern] = leaf
			}
		}
	}
	return s, nil
}

// leaves returns the paths to everything in t that a parameter can fill.
func leaves(t reflect.Type, to path) []path {
	switch {
	case isLeaf(t):
		return []path{to}
	case t.Kind() == reflect.Pointer:
		return leaves(t.Elem(), to)
	case t.Kind() == reflect.Slice:
		return leaves(t.Elem(), to.with(element))
	case t.Kind() != reflect.Struct:
		return nil
	}
	var all []path
	for i := range t.NumField() {
		if t.Field(i).IsExported() {
			all = append(all, leaves(t.Field(i).Type, to.with(i))...)
		}
	}
	return all
}

func (p path) with(step int) path { return append(p[:len(p):len(p)], step) }

func isLeaf(t reflect.Type) bool {
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch t.Kind() {
	case reflect.String, reflect.Bool, reflect.Int32, reflect.Int64, reflect.Float64:
		return true
	default:
		return t == reflect.TypeFor[time.Time]() || t == reflect.TypeFor[[]byte]()
	}
}

// descend takes one step into v, and makes what is not there yet: the pointer's
// target, or the list's member of that index.
func descend(v reflect.Value, step, index int) reflect.Value {
	if v.Kind() == reflect.Pointer {
		if v.IsNil() {
			v.Set(reflect.New(v.Type().Elem()))
		}
		v = v.Elem()
	}
	if step != element {
		return v.Field(step)
	}
	for v.Len() <= index {
		v.Set(reflect.Append(v, reflect.Zero(v.Type().Elem())))
	}
	return v.Index(index)
}

// sample is a value of a leaf that no serializer leaves out.
func sample(t reflect.Type) reflect.Value {
	text := "1"
	switch base := strings.TrimPrefix(t.String(), "*"); base {
	case "bool":
		text = "true"
	case "time.Time":
		text = "2026-01-02T03:04:05Z"
	case "[]uint8":
		text = "eA=="
	}
	v, err := parse(t, text)
	if err != nil {
		panic(fmt.Sprintf("sample of %v: %v", t, err))
	}
	return v
}

// parse reads the value of a leaf of type t.
func parse(t reflect.Type, text string) (reflect.Value, error) {
	if t.Kind() == reflect.Pointer {
		v, err := parse(t.Elem(), text)
		if err != nil {
			return v, err
		}
		p := reflect.New(t.Elem())
		p.Elem().Set(v)
		return p, nil
	}
	var v any
	var err error
	switch {
	case t == reflect.TypeFor[time.Time]():
		v, err = time.Parse(time.RFC3339, text)
	case t == reflect.TypeFor[[]byte]():
		v, err = base64.StdEncoding.DecodeString(text)
	case t.Kind() == reflect.Bool:
		v, err = strconv.ParseBool(text)
	case t.Kind() == reflect.Int32, t.Kind() == reflect.Int64:
		v, err = strconv.ParseInt(text, 10, t.Bits())
	case t.Kind() == reflect.Float64:
		v, err = strconv.ParseFloat(text, 64)
	default:
		v = text
	}
	if err != nil {
		return reflect.Value{}, err
	}
	return reflect.ValueOf(v).Convert(t), nil
}

// unindexed puts N in the place of every index in a parameter's name.
func unindexed(name string) (pattern string, indices []int) {
	segments := strings.Split(name, ".")
	for i, segment := range segments {
		if n, err := strconv.Atoi(segment); err == nil {
			segments[i] = "N"
			indices = append(indices, n)
		}
	}
	return strings.Join(segments, "."), indices
}

// serialized is how a query leaves the SDK instead of being sent.
type serialized struct{ values url.Values }

func (*serialized) Error() string { return "the request was kept from being sent" }

// keepQuery makes a client of the SDK return its calls as *serialized, whatever
// the input lacks.
func keepQuery(stack *middleware.Stack) error {
	stack.Initialize.Clear() // checks and completes the input
	return stack.Serialize.Add(middleware.SerializeMiddlewareFunc("keepQuery", func(
		_ context.Context, in middleware.SerializeInput, _ middleware.SerializeHandler,
	) (out middleware.SerializeOutput, metadata middleware.Metadata, err error) {
		request, ok := in.Request.(*smithyhttp.Request)
		if !ok {
			return out, metadata, fmt.Errorf("a request of type %T", in.Request)
		}
		body, err := io.ReadAll(request.GetStream())
		if err != nil {
			return out, metadata, err
		}
		values, err := url.ParseQuery(string(body))
		if err != nil {
			return out, metadata, err
		}
		return out, metadata, &serialized{values}
	}), middleware.After)
}

// serializer is what the SDK makes of an input of call, which is a method of a
// client with keepQuery.
func serializer[I, O, P any](call func(context.Context, *I, ...func(*P)) (*O, error)) func(*I) (url.Values, error) {
	return func(input *I) (url.Values, error) {
		_, err := call(context.Background(), input)
		if kept, ok := errors.AsType[*serialized](err); ok {
			return kept.values, nil
		}
		return nil, fmt.Errorf("serialize: %w", err)
	}
}
