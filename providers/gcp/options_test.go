package gcp

import (
	"net/netip"
	"strings"
	"testing"

	"nstance.dev/providers/gcp/api"
)

func TestComplete(t *testing.T) {
	for name, tt := range map[string]struct {
		opts    Options
		env     map[string]string
		want    api.Place
		address string // the endpoint
		say     string // of the error
	}{
		"the region is the zone's": {opts: Options{Zone: "europe-west1-b"}, want: api.Place{Region: "europe-west1", Zone: "europe-west1-b"}},
		"from the environment": {opts: Options{Zone: "europe-west1-b"}, env: map[string]string{EnvProject: "env-project", EnvEndpoint: "http://fake"},
			want: api.Place{Project: "env-project", Region: "europe-west1", Zone: "europe-west1-b"}, address: "http://fake"},
		"options win": {opts: Options{Zone: "europe-west1-b", Project: "my-project", Endpoint: "http://mine"}, env: map[string]string{EnvProject: "env-project", EnvEndpoint: "http://fake"},
			want: api.Place{Project: "my-project", Region: "europe-west1", Zone: "europe-west1-b"}, address: "http://mine"},
		"no zone":               {say: "zone: missing"},
		"no zone but a word":    {opts: Options{Zone: "here"}, say: "is not a zone"},
		"another region":        {opts: Options{Zone: "europe-west1-b", Region: "europe-west4"}, say: `set "europe-west1"`},
		"an endpoint of a path": {opts: Options{Zone: "europe-west1-b"}, env: map[string]string{EnvEndpoint: "http://fake/compute/v1"}, say: "endpoint: "},
		"a leader's IPv6":       {opts: Options{Zone: "europe-west1-b", LeaderIP: netip.MustParseAddr("fd00::1")}, say: "leader_network.ip: "},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv(EnvProject, tt.env[EnvProject])
			t.Setenv(EnvEndpoint, tt.env[EnvEndpoint])
			got, err := tt.opts.complete()
			if tt.say != "" {
				if err == nil || !strings.Contains(err.Error(), tt.say) {
					t.Errorf("%v, want %q", err, tt.say)
				}
				return
			}
			if at := (api.Place{Project: got.Project, Region: got.Region, Zone: got.Zone}); err != nil || at != tt.want || got.Endpoint != tt.address {
				t.Errorf("%+v at %q, %v; want %+v at %q", at, got.Endpoint, err, tt.want, tt.address)
			}
		})
	}
}
