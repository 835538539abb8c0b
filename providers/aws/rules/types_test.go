package rules

import (
	"errors"
	"reflect"
	"strings"
	"testing"

	"nstance.dev/server/driver"
)

func TestArchitectureOfAFamily(t *testing.T) {
	for name, want := range map[string]string{
		"a1.large": arm64, "t4g.small": arm64, "m7gd.metal": arm64, "c6gn.16xlarge": arm64, "im4gn.large": arm64, "is4gen.medium": arm64,
		"g5g.xlarge": arm64, "x2gd.medium": arm64, "hpc7g.4xlarge": arm64, "c7g-flex.large": arm64, "r8gb.large": arm64,
		"t3.small": amd64, "m7i-flex.large": amd64, "g5.xlarge": amd64, "g6e.48xlarge": amd64, "c5n.18xlarge": amd64, "p4de.24xlarge": amd64,
		"u-6tb1.metal": amd64, "u7in-16tb.224xlarge": amd64, "i7ie.large": amd64, "trn1n.32xlarge": amd64, "inf2.xlarge": amd64,
		"hpc6id.32xlarge": amd64, "vt1.3xlarge": amd64, "d3en.xlarge": amd64, "z1d.large": amd64, "g4dn.xlarge": amd64, "g4ad.xlarge": amd64,
	} {
		if got := FamilyArch(name); !reflect.DeepEqual(got, []string{want}) {
			t.Errorf("%s: %v, want %s", name, got, want)
		}
	}
	for _, name := range []string{"", "medium", "t4g", "cpu:4,memory:8192", "n2-standard-4", "T4g.small"} {
		if got := FamilyArch(name); got != nil {
			t.Errorf("%q: %v", name, got)
		}
	}
}

// The SDK lists the types that were there when it was made: each has to have the
// form of a name.
func TestArchitectureOfEveryFamily(t *testing.T) {
	for _, name := range sdk().enums[instanceTypes] {
		if FamilyArch(name) == nil {
			t.Errorf("%s is not taken for a type", name)
		}
	}
}

func TestTypesInAConfiguration(t *testing.T) {
	for _, c := range []struct{ name, arch, want string }{
		{"t4g.small", arm64, ""},
		{"t4g.small", amd64, `"t4g.small" has the architecture arm64`},
		{"m7i.large", arm64, `"m7i.large" has the architecture amd64`},
		{"n2-standard-4", amd64, "is not an instance type of EC2, such as t4g.medium"},
		{"m99g.large", arm64, "is newer than this build, or misspelled"},
	} {
		err := checkType(c.name, c.arch)
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s on %s: %v, want %q", c.name, c.arch, err, c.want)
		}
		if unknown := errors.Is(err, driver.ErrUnknownType); unknown != strings.Contains(c.want, "newer") {
			t.Errorf("%s: a warning: %v", c.name, unknown)
		}
	}
}
