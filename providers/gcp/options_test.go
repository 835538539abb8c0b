package gcp

import (
	"encoding/json"
	"net/netip"
	"strings"
	"testing"
)

func TestParseOptions(t *testing.T) {
	got, err := ParseOptions(map[string]any{"project": "my-project-1", "endpoint": "http://127.0.0.1:8080", "prices": map[string]any{"e2-small": json.Number("0.0168")}})
	if err != nil || got.Prices["e2-small"] != 0.0168 || got.Project != "my-project-1" || got.Endpoint != "http://127.0.0.1:8080" {
		t.Errorf("options: %+v, %v", got, err)
	}
	_, err = ParseOptions(map[string]any{"project": 7, "endpoint": "127.0.0.1", "prices": map[string]any{"x": -1}, "zone": "x"})
	for _, say := range []string{"project: is 7", "endpoint: \"127.0.0.1\" is no address", "prices: x: is -1", "zone: unknown option"} {
		if err == nil || !strings.Contains(err.Error(), say) {
			t.Errorf("%v does not say %q", err, say)
		}
	}
	if checkOption("project", "UPPER") == nil || checkOption("project", "example.com:my-project") != nil {
		t.Error("a project's id is judged wrongly")
	}
}

func TestComplete(t *testing.T) {
	for name, tt := range map[string]struct {
		opts    Options
		env     map[string]string
		want    place
		address string // the endpoint
		say     string // of the error
	}{
		"the region is the zone's": {opts: Options{Zone: "europe-west1-b"}, want: place{region: "europe-west1", zone: "europe-west1-b"}},
		"from the environment": {opts: Options{Zone: "europe-west1-b"}, env: map[string]string{EnvProject: "env-project", EnvEndpoint: "http://fake"},
			want: place{project: "env-project", region: "europe-west1", zone: "europe-west1-b"}, address: "http://fake"},
		"options win": {opts: Options{Zone: "europe-west1-b", Project: "my-project", Endpoint: "http://mine"}, env: map[string]string{EnvProject: "env-project", EnvEndpoint: "http://fake"},
			want: place{project: "my-project", region: "europe-west1", zone: "europe-west1-b"}, address: "http://mine"},
		"no zone":               {say: "zone: missing"},
		"no zone but a word":    {opts: Options{Zone: "here"}, say: "is no zone"},
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
			if at := (place{got.Project, got.Region, got.Zone}); err != nil || at != tt.want || got.Endpoint != tt.address {
				t.Errorf("%+v at %q, %v; want %+v at %q", at, got.Endpoint, err, tt.want, tt.address)
			}
		})
	}
}
