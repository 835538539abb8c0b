package rules

import (
	"testing"

	"nstance.dev/server/driver"
)

func TestSizeOfATypeIsInItsName(t *testing.T) {
	for name, want := range map[string]driver.Traits{
		"cpu:2,memory:4096": {VCPU: 2, MemoryMiB: 4096}, "memory:512": {MemoryMiB: 512}, "small": {}, "": {}, "cpu:2,disk:5": {}, "cpu:-2": {},
	} {
		if got := New().Traits(name, nil); got != want {
			t.Errorf("%q: %+v, want %+v", name, got, want)
		}
	}
}
