package gcpfake_test

import (
	"io"
	"net/http"
	"testing"
	"time"

	"cloud.google.com/go/compute/apiv1/computepb"
	"cloud.google.com/go/compute/metadata"

	"nstance.dev/providers/gcp/gcpfake"
	"nstance.dev/server/driver/drivertest/wire"
)

// inside is Google's own client for the metadata server of a machine.
func (a *account) inside(name string) *metadata.Client {
	return metadata.NewClient(&http.Client{Transport: wire.RoundTripper(a.Metadata(name))})
}

func TestAMachineKnowsItself(t *testing.T) {
	within(t, gcpfake.Options{}, func(t *testing.T, a *account) {
		a.must("knc1", metadataItems("startup-script", "#!/bin/sh"))
		in := a.inside("knc1")
		for what, ask := range map[string]func() (string, error){
			"nstance-fake":   func() (string, error) { return in.ProjectIDWithContext(t.Context()) },
			"knc1":           func() (string, error) { return in.InstanceNameWithContext(t.Context()) },
			"europe-west1-b": func() (string, error) { return in.ZoneWithContext(t.Context()) },
			"10.0.0.2":       func() (string, error) { return in.InternalIPWithContext(t.Context()) },
			"#!/bin/sh":      func() (string, error) { return in.InstanceAttributeValueWithContext(t.Context(), "startup-script") },
			"FALSE":          func() (string, error) { return in.GetWithContext(t.Context(), "instance/scheduling/preemptible") },
		} {
			if got, err := ask(); got != what || err != nil {
				t.Errorf("%q, %v; want %q", got, err, what)
			}
		}
		if _, err := in.InstanceAttributeValueWithContext(t.Context(), "user-data"); err == nil {
			t.Error("an attribute that is not there has a value")
		}
		a.Kill("knc1")
		ctx := impatient(t, time.Second)
		if got, err := in.InstanceNameWithContext(ctx); err == nil {
			t.Errorf("a machine that does not run knows that it is %q", got)
		}
	})
}

func (a *account) ask(name, path string, header http.Header) *http.Response {
	req, _ := http.NewRequestWithContext(a.t.Context(), http.MethodGet, "http://metadata"+path, nil)
	req.Header = header
	resp, err := (&http.Client{Transport: wire.RoundTripper(a.Metadata(name))}).Do(req)
	if err != nil {
		a.t.Fatal(err)
	}
	return resp
}

func TestStrangersAreToldNothing(t *testing.T) {
	within(t, gcpfake.Options{}, func(t *testing.T, a *account) {
		a.must("knc1")
		google := http.Header{"Metadata-Flavor": {"Google"}}
		for name, c := range map[string]struct {
			path   string
			header http.Header
			want   int
		}{
			"the root":           {"/", nil, 200},
			"with the header":    {"/computeMetadata/v1/instance/name", google, 200},
			"without the header": {"/computeMetadata/v1/instance/name", nil, 403},
			"through a proxy":    {"/computeMetadata/v1/instance/name", http.Header{"Metadata-Flavor": {"Google"}, "X-Forwarded-For": {"192.0.2.1"}}, 403},
			"an unknown path":    {"/computeMetadata/v1/instance/colour", google, 404},
			"another root":       {"/latest/meta-data/", google, 404},
		} {
			resp := a.ask("knc1", c.path, c.header)
			resp.Body.Close()
			if resp.StatusCode != c.want || resp.Header.Get("Metadata-Flavor") != "Google" {
				t.Errorf("%s: %s, flavor %q", name, resp.Status, resp.Header.Get("Metadata-Flavor"))
			}
		}
	})
}

func TestASpotMachineHearsOfItsEnd(t *testing.T) {
	within(t, gcpfake.Options{}, func(t *testing.T, a *account) {
		a.must("spot", func(m *computepb.Instance) { m.Scheduling = &computepb.Scheduling{ProvisioningModel: new("SPOT")} })
		google := http.Header{"Metadata-Flavor": {"Google"}}
		const path = "/computeMetadata/v1/instance/preempted"
		now := a.ask("spot", path, google)
		if text, _ := io.ReadAll(now.Body); string(text) != "FALSE" {
			t.Fatalf("before: %s", text)
		}
		wait := path + "?wait_for_change=true&timeout_sec=60&last_etag=" + now.Header.Get("ETag")
		start := time.Now()
		if text, _ := io.ReadAll(a.ask("spot", wait, google).Body); string(text) != "FALSE" || time.Since(start) != time.Minute {
			t.Errorf("a minute without news: %s after %v", text, time.Since(start))
		}
		time.AfterFunc(10*time.Second, func() { a.Interrupt("spot") })
		start = time.Now()
		if text, _ := io.ReadAll(a.ask("spot", wait, google).Body); string(text) != "TRUE" || time.Since(start) != 10*time.Second {
			t.Errorf("when it is taken away: %s after %v", text, time.Since(start))
		}
	})
}

func TestATokenOfAMetadataServerOpensTheAPI(t *testing.T) {
	within(t, gcpfake.Options{}, func(t *testing.T, a *account) {
		if _, err := a.names("", 0); err != nil {
			t.Fatal(err)
		}
		token, life := a.Token()
		list := func() int {
			req, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, gcpfake.Endpoint+"/compute/v1/projects/"+a.Project()+"/zones/"+a.zone+"/instances", nil)
			req.Header.Set("Authorization", "Bearer "+token)
			resp, err := a.Open().Do(req)
			if err != nil {
				t.Fatal(err)
			}
			resp.Body.Close()
			return resp.StatusCode
		}
		if got := list(); got != 200 {
			t.Errorf("with a token: %d", got)
		}
		later(life)
		if got := list(); got != 401 {
			t.Errorf("with an old token: %d", got)
		}
		token, _ = a.Token()
		a.RevokeTokens()
		if got := list(); got != 401 {
			t.Errorf("with a token that was taken back: %d", got)
		}
	})
}
