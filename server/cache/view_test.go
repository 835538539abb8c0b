package cache

import (
	"reflect"
	"slices"
	"testing"
	"time"
)

// A caller of the API sees every field of an instance but those that say of themselves
// that nobody does.
func TestEveryFieldThatCallersSeeMakesAView(t *testing.T) {
	unseen := []string{"ProviderSeenAt", "Revision"}
	for _, path := range leaves(reflect.TypeFor[Instance](), nil) {
		var a, b Instance
		set(t, reflect.ValueOf(&b).Elem().FieldByIndex(path))
		name := reflect.TypeFor[Instance]().FieldByIndex(path).Name
		if same, want := sameView(&a, &b), slices.Contains(unseen, name); same != want {
			t.Errorf("with another %s it looks the same: %v, want %v", name, same, want)
		}
	}
}

// leaves are the indexes of all fields that are not made of others.
func leaves(of reflect.Type, path []int) (all [][]int) {
	if of.Kind() != reflect.Struct || of == reflect.TypeFor[time.Time]() {
		return [][]int{path}
	}
	for i := range of.NumField() {
		all = append(all, leaves(of.Field(i).Type, append(slices.Clone(path), i))...)
	}
	return all
}

// set gives a field a value that is not its zero value.
func set(t *testing.T, field reflect.Value) {
	t.Helper()
	switch field.Kind() {
	case reflect.String:
		field.SetString("x")
	case reflect.Bool:
		field.SetBool(true)
	case reflect.Uint8, reflect.Uint64:
		field.SetUint(1)
	case reflect.Int, reflect.Int64:
		field.SetInt(1)
	case reflect.Slice:
		field.SetBytes([]byte("x"))
	case reflect.Struct:
		field.Set(reflect.ValueOf(time.Unix(1, 0)))
	default:
		t.Fatalf("a field is a %s: say here what another value of it is", field.Kind())
	}
}
