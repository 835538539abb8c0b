package gcp

import (
	"cmp"
	"strings"

	"nstance.dev/providers/gcp/rules"
)

// place is where a driver's machines are.
type place struct{ project, region, zone string }

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
	s, err := rules.ParseSubnet(id)
	if err != nil {
		return subnet{}, err
	}
	return subnet{project: cmp.Or(s.Project, p.project), region: cmp.Or(s.Region, p.region), name: s.Name}, nil
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

// baseName is the last part of a URL.
func baseName(url string) string { return url[strings.LastIndexByte(url, '/')+1:] }
