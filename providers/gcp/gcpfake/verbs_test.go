package gcpfake

import (
	"maps"
	"testing"
)

func TestEveryMethodHasItsPermissions(t *testing.T) {
	rest := maps.Clone(permissions)
	for _, v := range verbs() {
		if len(permissions[v.op]) == 0 {
			t.Errorf("%s asks for no permission", v.op)
		}
		delete(rest, v.op)
	}
	for op := range rest {
		t.Errorf("%s is no method", op)
	}
}
