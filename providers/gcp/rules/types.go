package rules

import (
	"fmt"
	"slices"
	"strings"

	"nstance.dev/server/driver"
)

// Families of machine types by architecture; see
// https://cloud.google.com/compute/docs/machine-resource.
var (
	armFamilies = []string{"a4x", "c4a", "n4a", "t2a"}
	x86Families = []string{
		"a2", "a3", "a4", "c2", "c2d", "c3", "c3d", "c4", "c4d", "custom", "e2", "f1", "g1", "g2", "g4", "h3", "h4d",
		"m1", "m2", "m3", "m4", "n1", "n2", "n2d", "n4", "n4d", "t2d", "x4", "z3",
	}
)

// FamilyArch is the architecture of a machine type by its name, or "".
func FamilyArch(instanceType string) string {
	family, _, _ := strings.Cut(instanceType, "-")
	switch {
	case slices.Contains(armFamilies, family):
		return "arm64"
	case slices.Contains(x86Families, family):
		return "amd64"
	}
	return ""
}

// checkInstanceType says by its name alone why a machine type does not fit an
// architecture.
func checkInstanceType(instanceType, arch string) error {
	switch has := FamilyArch(instanceType); has {
	case "":
		return fmt.Errorf("%w: %q is of an unknown machine family", driver.ErrUnknownType, instanceType)
	case arch:
		return nil
	default:
		return fmt.Errorf("machines of type %q are %s, not %s", instanceType, has, arch)
	}
}
