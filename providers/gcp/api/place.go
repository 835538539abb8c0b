package api

import (
	"cmp"
	"strings"

	"nstance.dev/providers/gcp/rules"
)

// Place is where a driver's machines are.
type Place struct{ Project, Region, Zone string }

// Zonal is the path of a resource of the zone, such as machineTypes/e2-small.
// What is given as a path or URL stays as it is.
func (p Place) Zonal(collection, name string) string {
	if strings.Contains(name, "/") {
		return name
	}
	return "projects/" + p.Project + "/zones/" + p.Zone + "/" + collection + "/" + name
}

// SubnetRef is a subnet's place and name.
type SubnetRef struct{ Project, Region, Name string }

// Path is the path by which the API knows the subnet.
func (s SubnetRef) Path() string {
	return "projects/" + s.Project + "/regions/" + s.Region + "/subnetworks/" + s.Name
}

// Subnet reads the id of a subnet: a name, which is one of the driver's own
// project and region, or a path or URL with a project of its own, which a shared
// network has.
func (p Place) Subnet(id string) (SubnetRef, error) {
	s, err := rules.ParseSubnet(id)
	if err != nil {
		return SubnetRef{}, err
	}
	return SubnetRef{Project: cmp.Or(s.Project, p.Project), Region: cmp.Or(s.Region, p.Region), Name: s.Name}, nil
}

// Short is the id by which configurations name the subnet of a URL: its name if
// it is one of the driver's own, else its path.
func (p Place) Short(url string) string {
	s, err := p.Subnet(url)
	switch {
	case err != nil:
		return url
	case s.Project == p.Project && s.Region == p.Region:
		return s.Name
	}
	return s.Path()
}

// BaseName is the last part of a URL.
func BaseName(url string) string { return url[strings.LastIndexByte(url, '/')+1:] }
