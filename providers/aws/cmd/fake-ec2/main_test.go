package main

import (
	"bufio"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"flag"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/feature/ec2/imds"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience is for what processes do on a busy machine.
const patience = time.Minute

// start runs the command and sets the variables that it prints.
func start(t *testing.T, args ...string) (end func()) {
	t.Helper()
	o, err := parse(args, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	r, w := io.Pipe()
	done := make(chan error, 1)
	go func() { done <- run(ctx, o, w) }()
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		if variable, ok := strings.CutPrefix(lines.Text(), "export "); ok {
			name, value, _ := strings.Cut(variable, "=")
			t.Setenv(name, strings.Trim(value, "'"))
		}
		if strings.HasPrefix(lines.Text(), "# machines are under") {
			break
		}
	}
	for _, name := range []string{"AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE"} {
		t.Setenv(name, os.DevNull)
	}
	return func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("run: %v", err)
		}
	}
}

func await(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !holds(); <-time.After(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("after %v still not: %s", patience, what)
		}
	}
}

// TestTheSDKFindsTheAccount starts an SDK that knows nothing but the variables, and
// makes a machine that runs.
func TestTheSDKFindsTheAccount(t *testing.T) {
	dir := t.TempDir()
	env := filepath.Join(dir, "env")
	end := start(t, "--dir", filepath.Join(dir, "machines"), "--env", env, "--servers", "2", "--boot", "10ms", "--end", "10ms")
	defer func() { end() }()
	cfg, err := config.LoadDefaultConfig(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	transport := &http.Transport{}
	defer transport.CloseIdleConnections()
	cfg.HTTPClient = &http.Client{Transport: transport}
	vm := ec2.NewFromConfig(cfg)
	self, err := imds.NewFromConfig(cfg).GetMetadata(t.Context(), &imds.GetMetadataInput{Path: "instance-id"})
	if err != nil {
		t.Fatal(err)
	}
	server, err := io.ReadAll(self.Content)
	if err = errors.Join(err, self.Content.Close()); err != nil {
		t.Fatal(err)
	}
	if _, err := vm.DescribeInstances(t.Context(), &ec2.DescribeInstancesInput{InstanceIds: []string{string(server)}}); err != nil {
		t.Errorf("the server's own instance: %v", err)
	}
	beats := filepath.Join(dir, "beats")
	script := "#!/bin/sh\nwhile :; do echo . >>" + beats + "; sleep 0.05; done\n"
	out, err := vm.RunInstances(t.Context(), &ec2.RunInstancesInput{
		ImageId: aws.String("ami-0a1100000000000003"), InstanceType: types.InstanceTypeT4gSmall,
		SubnetId: aws.String("subnet-0a1100000000000a"), MinCount: aws.Int32(1), MaxCount: aws.Int32(1),
		UserData: aws.String(base64.StdEncoding.EncodeToString([]byte(script))),
	})
	if err != nil {
		t.Fatal(err)
	}
	id := *out.Instances[0].InstanceId
	size := func() int64 {
		info, err := os.Stat(beats)
		if err != nil {
			return 0
		}
		return info.Size()
	}
	await(t, "the machine's script runs", func() bool { return size() > 0 })
	if text, err := os.ReadFile(env); err != nil || !strings.Contains(string(text), "export AWS_REGION='us-east-1'\n") {
		t.Errorf("the file of variables: %q, %v", text, err)
	}
	if got := ask(t, transport, http.MethodPost, "/"+id+"/interrupt"); got != http.StatusNotFound {
		t.Errorf("interruption of a machine that is not a spot machine: %d", got)
	}
	if got := ask(t, transport, http.MethodPost, "/"+id+"/kill"); got != http.StatusOK {
		t.Errorf("kill: %d", got)
	}
	await(t, "the machine has stopped", func() bool { return state(t, transport, id) == "stopped" })
	end()
	last := size()
	<-time.After(200 * time.Millisecond) // the script writes four times in that
	if size() != last {
		t.Error("a machine outlives the command")
	}
	end = func() {}
}

func ask(t *testing.T, by http.RoundTripper, method, path string) int {
	t.Helper()
	return answer(t, by, method, path, nil)
}

func answer(t *testing.T, by http.RoundTripper, method, path string, into any) int {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, os.Getenv("FAKE_EC2")+"/fake/machines"+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	w, err := by.RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = w.Body.Close() }()
	if into != nil {
		if err := json.NewDecoder(w.Body).Decode(into); err != nil {
			t.Fatal(err)
		}
	}
	return w.StatusCode
}

func state(t *testing.T, by http.RoundTripper, id string) string {
	t.Helper()
	var all []machine
	answer(t, by, http.MethodGet, "", &all)
	for _, m := range all {
		if m.ID == id {
			return m.State
		}
	}
	return ""
}

func TestCommandLine(t *testing.T) {
	var help strings.Builder
	if _, err := parse([]string{"--help"}, &help); !errors.Is(err, flag.ErrHelp) || !strings.Contains(help.String(), "-page-size") {
		t.Errorf("the help is %q, %v", help.String(), err)
	}
	if _, err := parse([]string{"please"}, io.Discard); err == nil || !strings.Contains(err.Error(), `"please"`) {
		t.Errorf("an argument: %v", err)
	}
	if _, err := parse([]string{"--servers", "0"}, io.Discard); err == nil || !strings.Contains(err.Error(), "--servers") {
		t.Errorf("no servers: %v", err)
	}
	o, err := parse([]string{"--listen", "127.0.0.1:99999"}, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	if err := run(t.Context(), o, io.Discard); err == nil || !strings.Contains(err.Error(), "--listen") {
		t.Errorf("an address that is none: %v", err)
	}
}
