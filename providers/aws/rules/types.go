package rules

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"nstance.dev/server/driver"
)

const (
	amd64 = "amd64"
	arm64 = "arm64"
)

// typeName is the form of a type's name: family, generation, attributes, size.
// Source: https://docs.aws.amazon.com/ec2/latest/instancetypes/instance-type-names.html
var typeName = regexp.MustCompile(`^([a-z][a-z-]*?)-?([0-9]+)([a-z0-9-]*)\.[a-z0-9-]+$`)

// FamilyArch guesses the architectures of a type by its name: a "g" among the
// attributes stands for Graviton. It gives nil for a name of another form.
func FamilyArch(instanceType string) []string {
	parts := typeName.FindStringSubmatch(instanceType)
	if parts == nil {
		return nil
	}
	family, generation, attributes := parts[1], parts[2], parts[3]
	attributes, _, _ = strings.Cut(attributes, "-") // what follows, as in i7ie or u7in-16tb, is no processor
	if strings.Contains(attributes, "g") || family == "a" && generation == "1" {
		return []string{arm64}
	}
	return []string{amd64}
}

// checkType is what can be said of a type without asking EC2.
func checkType(instanceType, arch string) error {
	switch {
	case !typeName.MatchString(instanceType):
		return fmt.Errorf("%q is not an instance type of EC2, such as t4g.medium", instanceType)
	case !slices.Contains(sdk().enums[instanceTypes], instanceType):
		return fmt.Errorf("%w: %q is newer than this build, or misspelled", driver.ErrUnknownType, instanceType)
	case !slices.Contains(FamilyArch(instanceType), arch):
		return fmt.Errorf("%q has the architecture %s", instanceType, strings.Join(FamilyArch(instanceType), ", "))
	}
	return nil
}
