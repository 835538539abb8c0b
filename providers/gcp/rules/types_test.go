package rules

import (
	"errors"
	"testing"

	"nstance.dev/server/driver"
)

func TestCheckInstanceType(t *testing.T) {
	for name, want := range map[string]string{
		"e2-medium": "amd64", "n2-custom-4-8192": "amd64", "custom-2-4096": "amd64", "t2d-standard-1": "amd64",
		"t2a-standard-1": "arm64", "c4a-highmem-4": "arm64", "n4a-standard-2": "arm64", "z9-mega-1": "",
	} {
		for _, arch := range []string{"amd64", "arm64"} {
			err := checkInstanceType(name, arch)
			if known := !errors.Is(err, driver.ErrUnknownType); known != (want != "") || (err == nil) != (want == arch) {
				t.Errorf("%s for %s: %v, it is %q", name, arch, err, want)
			}
		}
	}
}
