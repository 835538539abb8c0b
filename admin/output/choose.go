package output

import (
	"cmp"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/labels"
)

// Sort sorts items by a field of their JSON, such as created_at or .condemned.reason.
// Numbers come by their value, everything else by its text; items without the field
// come first. A field that no item has is an error.
func Sort[T any](items []Item[T], field string) error {
	if field == "" || len(items) == 0 {
		return nil
	}
	path, err := parsePath(field)
	if err != nil {
		return fmt.Errorf("--sort-by %s: %w", field, err)
	}
	type row struct {
		item  Item[T]
		value any
	}
	rows := make([]row, len(items))
	found := false
	var fields map[string]any
	for i, item := range items {
		if fields, err = fieldsOf(item); err != nil {
			return err
		}
		results, err := path.FindResults(fields)
		if err != nil && !beyond(err) {
			return fmt.Errorf("--sort-by %s: %w", field, err)
		}
		rows[i].item = item
		if len(results) > 0 && len(results[0]) > 0 {
			rows[i].value, found = results[0][0].Interface(), true
		}
	}
	if !found {
		return fmt.Errorf("--sort-by %s: nothing in the list has this field; the fields are %s", field, strings.Join(slices.Sorted(maps.Keys(fields)), ", "))
	}
	slices.SortStableFunc(rows, func(a, b row) int { return compare(a.value, b.value) })
	for i := range rows {
		items[i] = rows[i].item
	}
	return nil
}

func compare(a, b any) int {
	x, xIsNumber := numberOf(a)
	y, yIsNumber := numberOf(b)
	if xIsNumber && yIsNumber {
		return cmp.Compare(x, y)
	}
	return cmp.Compare(textOf(a), textOf(b))
}

func numberOf(v any) (float64, bool) {
	r := reflect.ValueOf(v)
	switch {
	case r.IsValid() && r.CanInt():
		return float64(r.Int()), true
	case r.IsValid() && r.CanFloat():
		return r.Float(), true
	}
	return 0, false
}

func textOf(v any) string {
	if v == nil {
		return ""
	}
	return fmt.Sprint(v)
}

func fieldsOf[T any](item Item[T]) (map[string]any, error) {
	data, err := marshal(item)
	if err != nil {
		return nil, err
	}
	v, err := decode(data)
	if err != nil {
		return nil, err
	}
	fields, ok := v.(map[string]any)
	if !ok {
		return nil, fmt.Errorf("print %T: it has no fields", item.Message)
	}
	return fields, nil
}

// Selector chooses items by their fields, in the language of Kubernetes' label
// selectors: size=3, status!=running, group in (web,db), vars.region. Fields of an
// object within one are named with a dot. The zero value chooses all; as a flag it
// refuses what cannot be read.
type Selector struct {
	text     string
	selector labels.Selector
}

// String implements pflag.Value.
func (s *Selector) String() string { return s.text }

// Type implements pflag.Value.
func (s *Selector) Type() string { return "selector" }

// Set implements pflag.Value.
func (s *Selector) Set(text string) error {
	selector, err := labels.Parse(text)
	if err != nil {
		return err
	}
	s.text, s.selector = text, selector
	return nil
}

// Matches reports whether a selector chooses an item.
func Matches[T any](s Selector, item Item[T]) (bool, error) {
	if s.selector == nil || s.selector.Empty() {
		return true, nil
	}
	fields, err := fieldsOf(item)
	if err != nil {
		return false, err
	}
	set := labels.Set{}
	flatten("", fields, set)
	return s.selector.Matches(set), nil
}

func flatten(prefix string, fields map[string]any, set labels.Set) {
	for name, v := range fields {
		switch v := v.(type) {
		case nil, []any:
		case map[string]any:
			flatten(prefix+name+".", v, set)
		default:
			set[prefix+name] = fmt.Sprint(v)
		}
	}
}

// Choose returns the items that a selector matches.
func Choose[T any](s Selector, items []Item[T]) ([]Item[T], error) {
	if s.selector == nil {
		return items, nil
	}
	var chosen []Item[T]
	for _, item := range items {
		ok, err := Matches(s, item)
		if err != nil {
			return nil, err
		}
		if ok {
			chosen = append(chosen, item)
		}
	}
	return chosen, nil
}
