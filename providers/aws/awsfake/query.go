package awsfake

import (
	"cmp"
	"fmt"
	"net/http"
	"net/url"
	"reflect"
	"slices"
	"strconv"
	"strings"
)

// decode fills input, a pointer to the struct that s was learnt from, with the
// parameters of a query. A name that the action does not have, a value of another
// type and a list with gaps are errors.
func (s schema) decode(values url.Values, input any) error {
	for _, name := range slices.SortedFunc(keys(values), byIndex) {
		if name == "Action" || name == "Version" {
			continue
		}
		if err := s.set(reflect.ValueOf(input).Elem(), name, values[name]); err != nil {
			return err
		}
	}
	return nil
}

func (s schema) set(field reflect.Value, name string, values []string) error {
	pattern, indices := unindexed(name)
	to, known := s[pattern]
	switch {
	case !known:
		return refuse("UnknownParameter", "The parameter %s is not recognized", name)
	case len(values) != 1:
		return refuse("InvalidParameterValue", "The parameter %s is given %d times", name, len(values))
	}
	for _, step := range to {
		index := 0
		if step == element {
			index, indices = indices[0]-1, indices[1:]
			if index < 0 || index > field.Len() {
				return refuse("InvalidParameterValue", "The index in %s is out of order", name)
			}
		}
		field = descend(field, step, index)
	}
	value, err := parse(field.Type(), values[0])
	if err != nil {
		return refuse("InvalidParameterValue", "Invalid value '%s' for %s", values[0], name)
	}
	field.Set(value)
	return nil
}

func keys(values url.Values) func(yield func(string) bool) {
	return func(yield func(string) bool) {
		for name := range values {
			if !yield(name) {
				return
			}
		}
	}
}

// byIndex orders names so that the members of a list come in their order.
func byIndex(a, b string) int {
	return slices.CompareFunc(strings.Split(a, "."), strings.Split(b, "."), func(x, y string) int {
		n, notX := strconv.Atoi(x)
		m, notY := strconv.Atoi(y)
		if notX != nil || notY != nil {
			return cmp.Compare(x, y)
		}
		return cmp.Compare(n, m)
	})
}

// apiError is an answer that says no, in the words of the service.
type apiError struct {
	status  int // of HTTP
	code    string
	message string
}

func (e *apiError) Error() string { return e.code + ": " + e.message }

// refuse is an error of the client with status 400, as nearly all of them are.
func refuse(code, format string, args ...any) error {
	return &apiError{http.StatusBadRequest, code, fmt.Sprintf(format, args...)}
}
