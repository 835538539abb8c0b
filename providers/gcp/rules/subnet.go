package rules

import (
	"fmt"
	"strings"
)

// Subnet is what the id of a subnet says: a name, and maybe where it is.
type Subnet struct{ Project, Region, Name string }

// ParseSubnet reads the id of a subnet: a name, or a path or URL with a project of its own,
// which a shared network has.
func ParseSubnet(id string) (Subnet, error) {
	s := Subnet{Name: id}
	if path, ok := resourcePath(id); ok {
		s.Name = ""
		part := strings.Split(path, "/")
		for i := 0; i+1 < len(part) && len(part)%2 == 0; i += 2 {
			switch part[i] {
			case "projects":
				s.Project = part[i+1]
			case "regions":
				s.Region = part[i+1]
			case "subnetworks":
				s.Name = part[i+1]
			}
		}
	}
	if !ResourceName.MatchString(s.Name) {
		return Subnet{}, fmt.Errorf("%q is not a subnet; it must be a name, or projects/PROJECT/regions/REGION/subnetworks/NAME", id)
	}
	return s, nil
}

// resourcePath is the part of a URL or path that names a resource, and whether
// text is one rather than a bare name.
func resourcePath(text string) (string, bool) {
	if _, after, ok := strings.Cut(text, "/compute/v1/"); ok {
		return after, true
	}
	return text, strings.Contains(text, "/")
}
