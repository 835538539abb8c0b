package gcp

import (
	"fmt"
	"regexp"
	"strings"
)

// place is where a driver's machines are.
type place struct{ project, region, zone string }

// The forms of names; see https://cloud.google.com/compute/docs/naming-resources.
var (
	projectID    = regexp.MustCompile(`^([a-z0-9.-]+:)?[a-z][a-z0-9-]{4,28}[a-z0-9]$`)
	resourceName = regexp.MustCompile(`^[a-z]([a-z0-9-]{0,61}[a-z0-9])?$`)
)

// zonal is the path of a resource of the zone, such as machineTypes/e2-small.
// What is given as a path or URL stays as it is.
func (p place) zonal(collection, name string) string {
	if strings.Contains(name, "/") {
		return name
	}
	return "projects/" + p.project + "/zones/" + p.zone + "/" + collection + "/" + name
}

// subnet is a subnet's place and name.
type subnet struct{ project, region, name string }

func (s subnet) path() string {
	return "projects/" + s.project + "/regions/" + s.region + "/subnetworks/" + s.name
}

// subnet reads the id of a subnet: a name, which is one of the driver's own
// project and region, or a path or URL with a project of its own, which a shared
// network has.
func (p place) subnet(id string) (subnet, error) {
	s := subnet{project: p.project, region: p.region, name: id}
	if path, ok := resourcePath(id); ok {
		s.name = ""
		part := strings.Split(path, "/")
		for i := 0; i+1 < len(part) && len(part)%2 == 0; i += 2 {
			switch part[i] {
			case "projects":
				s.project = part[i+1]
			case "regions":
				s.region = part[i+1]
			case "subnetworks":
				s.name = part[i+1]
			}
		}
	}
	if !resourceName.MatchString(s.name) {
		return subnet{}, fmt.Errorf("%q is no subnet; give its name, or projects/PROJECT/regions/REGION/subnetworks/NAME", id)
	}
	return s, nil
}

// short is the id by which configurations name the subnet of a URL: its name if
// it is one of the driver's own, else its path.
func (p place) short(url string) string {
	s, err := p.subnet(url)
	switch {
	case err != nil:
		return url
	case s.project == p.project && s.region == p.region:
		return s.name
	}
	return s.path()
}

// checkSubnetID says what is wrong with the id of a subnet.
func checkSubnetID(id string) error {
	_, err := place{}.subnet(id)
	return err
}

// resourcePath is the part of a URL or path that names a resource, and whether
// text is one rather than a bare name.
func resourcePath(text string) (string, bool) {
	if _, after, ok := strings.Cut(text, "/compute/v1/"); ok {
		return after, true
	}
	return text, strings.Contains(text, "/")
}

// baseName is the last part of a URL.
func baseName(url string) string { return url[strings.LastIndexByte(url, '/')+1:] }
