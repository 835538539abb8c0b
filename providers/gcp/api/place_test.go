package api

import (
	"testing"

	"nstance.dev/providers/gcp/rules"
)

// here is where the tests' machines are.
var here = Place{Project: "nstance-fake", Region: "europe-west1", Zone: "europe-west1-b"}

func TestSubnet(t *testing.T) {
	own := "projects/nstance-fake/regions/europe-west1/subnetworks/net-1"
	for id, want := range map[string]string{
		"net-1":                                  own,
		own:                                      own,
		"regions/europe-west1/subnetworks/net-1": own,
		"https://www.googleapis.com/compute/v1/" + own:          own,
		"https://compute.googleapis.com/compute/v1/" + own:      own,
		"projects/host/regions/europe-west4/subnetworks/shared": "projects/host/regions/europe-west4/subnetworks/shared",
		"":                                "",
		"Net":                             "",
		"10.0.0.0/24":                     "",
		"global/networks/":                "",
		"projects/host/global/networks/x": "",
	} {
		s, err := here.Subnet(id)
		if got := s.Path(); err == nil && got != want || (err != nil) != (want == "") {
			t.Errorf("%q is %q, %v; want %q", id, got, err, want)
		}
		if err := rules.New().CheckSubnet(id); (err != nil) != (want == "") {
			t.Errorf("check of %q: %v", id, err)
		}
	}
}

func TestShort(t *testing.T) {
	for url, want := range map[string]string{
		"https://www.googleapis.com/compute/v1/projects/nstance-fake/regions/europe-west1/subnetworks/net-1": "net-1",
		"https://www.googleapis.com/compute/v1/projects/host/regions/europe-west1/subnetworks/net-1":         "projects/host/regions/europe-west1/subnetworks/net-1",
		"something else": "something else",
	} {
		if got := here.Short(url); got != want {
			t.Errorf("%q is %q, want %q", url, got, want)
		}
	}
}
