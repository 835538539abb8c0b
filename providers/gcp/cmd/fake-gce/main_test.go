package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	compute "cloud.google.com/go/compute/apiv1"
	"cloud.google.com/go/compute/apiv1/computepb"
	"google.golang.org/api/googleapi"
	"google.golang.org/api/option"
)

// serving runs the command until the test ends, and returns the environment that it
// prints.
func serving(t *testing.T, args ...string) map[string]string {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	printed, stdout := io.Pipe()
	done := make(chan error, 1)
	go func() {
		err := run(ctx, append([]string{"--listen", "127.0.0.1:0"}, args...), stdout, io.Discard)
		stdout.CloseWithError(err)
		done <- err
	}()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	text := make([]byte, 4096)
	n, err := printed.Read(text)
	if err != nil {
		t.Fatal(err)
	}
	env := map[string]string{}
	for _, m := range regexp.MustCompile(`(?m)^export (\w+)='([^']*)'$`).FindAllStringSubmatch(string(text[:n]), -1) {
		env[m[1]] = m[2]
	}
	return env
}

// connect is Google's client with the credentials that it finds by itself.
func connect(t *testing.T, env map[string]string) *compute.InstancesClient {
	t.Helper()
	t.Setenv("GCE_METADATA_HOST", env["GCE_METADATA_HOST"])
	t.Setenv("GOOGLE_APPLICATION_CREDENTIALS", "")
	t.Setenv("HOME", t.TempDir()) // where a person's own credentials are
	client, err := compute.NewInstancesRESTClient(t.Context(), option.WithEndpoint(env["NSTANCE_GCE_ENDPOINT"]))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	return client
}

const project, zone = "nstance-fake", "europe-west1-b"

func machine(name string, metadata map[string]string) *computepb.InsertInstanceRequest {
	m := &computepb.Instance{
		Name: &name, MachineType: new("zones/" + zone + "/machineTypes/e2-medium"), Metadata: &computepb.Metadata{},
		Disks: []*computepb.AttachedDisk{{Boot: new(true), InitializeParams: &computepb.AttachedDiskInitializeParams{
			SourceImage: new("projects/debian-cloud/global/images/family/debian-12")}}},
		NetworkInterfaces: []*computepb.NetworkInterface{{Subnetwork: new("regions/europe-west1/subnetworks/nstance")}},
	}
	for key, value := range metadata {
		m.Metadata.Items = append(m.Metadata.Items, &computepb.Items{Key: &key, Value: &value})
	}
	return &computepb.InsertInstanceRequest{Project: project, Zone: zone, InstanceResource: m}
}

// TestAMachineRunsItsScript goes the way of a user: what is printed leads Google's
// client to the API and to a token, and a machine that it makes runs its script, again
// at every boot.
func TestAMachineRunsItsScript(t *testing.T) {
	ctx := t.Context()
	file := filepath.Join(t.TempDir(), "env")
	env := serving(t, "--speed", "1000", "--env", file)
	client := connect(t, env)
	mark := filepath.Join(t.TempDir(), "mark")
	op, err := client.Insert(ctx, machine("knc1", map[string]string{"startup-script": "#!/bin/sh\necho \"$GCE_METADATA_HOST\" >> " + mark + "\nexec sleep 1000\n"}))
	if err != nil || op.Wait(ctx) != nil {
		t.Fatalf("insert: %v", err)
	}
	await(t, mark, 1)
	stop, err := client.Stop(ctx, &computepb.StopInstanceRequest{Project: project, Zone: zone, Instance: "knc1"})
	if err != nil || stop.Wait(ctx) != nil {
		t.Fatalf("stop: %v", err)
	}
	if text, err := os.ReadFile(file); err != nil || !strings.Contains(string(text), "export FAKE_GCE='"+env["FAKE_GCE"]+"'\n") {
		t.Errorf("--env: %q, %v", text, err)
	}
	start, err := client.Start(ctx, &computepb.StartInstanceRequest{Project: project, Zone: zone, Instance: "knc1"})
	if err != nil || start.Wait(ctx) != nil {
		t.Fatalf("start: %v", err)
	}
	await(t, mark, 2)
	for path, want := range map[string]int{"knc1/kill": http.StatusOK, "knc2/kill": http.StatusNotFound, "knc1/interrupt": http.StatusNotFound, "knc1/dance": http.StatusNotFound} {
		if got := people(t, http.MethodPost, env["FAKE_GCE"]+"/fake/machines/"+path); got != want {
			t.Errorf("%s: %d, want %d", path, got, want)
		}
	}
	if got := people(t, http.MethodGet, env["FAKE_GCE"]+"/fake/machines"); got != http.StatusOK {
		t.Errorf("what there is: %d", got)
	}
	end, err := client.Delete(ctx, &computepb.DeleteInstanceRequest{Project: project, Zone: zone, Instance: "knc1"})
	if err != nil || end.Wait(ctx) != nil {
		t.Fatalf("delete: %v", err)
	}
	var refused *googleapi.Error
	_, err = client.Get(ctx, &computepb.GetInstanceRequest{Project: project, Zone: zone, Instance: "knc1"})
	if !errors.As(err, &refused) || refused.Code != 404 {
		t.Errorf("get of what is deleted: %v", err)
	}
}

// people do something that is no call of the API.
func people(t *testing.T, method, url string) int {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(req)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	return resp.StatusCode
}

// await waits until a file has so many lines.
func await(t *testing.T, file string, lines int) {
	t.Helper()
	pause := time.NewTicker(10 * time.Millisecond)
	defer pause.Stop()
	for deadline := time.Now().Add(time.Minute); ; <-pause.C {
		text, _ := os.ReadFile(file)
		if bytes.Count(text, []byte("\n")) >= lines {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s never had %d lines: %q", file, lines, text)
		}
	}
}

func TestBadFlags(t *testing.T) {
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"--speed", "0"}, "--speed 0 is not above 0"},
		{[]string{"--servers", "0"}, "--servers 0 is not between 1 and 9"},
		{[]string{"serve"}, `unexpected argument "serve"; see --help`},
		{[]string{"--listen", "nowhere"}, "missing port in address"},
	} {
		if err := run(t.Context(), c.args, io.Discard, io.Discard); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v: %v, want %s", c.args, err, c.want)
		}
	}
	var help bytes.Buffer
	if err := run(t.Context(), []string{"--help"}, io.Discard, &help); err != nil || !strings.Contains(help.String(), "-servers") {
		t.Errorf("%v: %s", err, help.String())
	}
}
