package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	proxmox "github.com/luthermonson/go-proxmox"
	"go.uber.org/goleak"

	"nstance.dev/providers/proxmox/proxmoxfake"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// serving runs the command until the test ends, and returns the environment that it
// prints.
func serving(t *testing.T, args ...string) map[string]string {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	printed, stdout := io.Pipe()
	done := make(chan error, 1)
	go func() {
		err := run(ctx, append([]string{"--listen", "127.0.0.1:0", "--dir", t.TempDir()}, args...), stdout, io.Discard)
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

func connect(env map[string]string, opts ...proxmox.Option) *proxmox.Client {
	opts = append(opts, proxmox.WithAPIToken(env["PROXMOX_TOKEN_ID"], env["PROXMOX_TOKEN_SECRET"]))
	return proxmox.NewClient(env["PROXMOX_API_URL"], opts...)
}

func TestPrintsTheEnvironmentAndServes(t *testing.T) {
	ca := filepath.Join(t.TempDir(), "ca.pem")
	for name, args := range map[string][]string{"http": nil, "https": {"--ca-file", ca}} {
		t.Run(name, func(t *testing.T) {
			env := serving(t, args...)
			opts := []proxmox.Option{proxmox.WithHTTPClient(&http.Client{Transport: &http.Transport{DisableKeepAlives: true}})}
			if name == "https" {
				opts = append(opts, proxmox.WithRootCAFile(ca))
			}
			client := connect(env, opts...)
			nodes, err := client.Nodes(t.Context())
			if err != nil || len(nodes) != 3 || !strings.HasPrefix(env["PROXMOX_API_URL"], name+"://127.0.0.1:") {
				t.Fatalf("%v: %v, %v", env, nodes, err)
			}
			_, err = (&proxmox.Node{}).New(client, "pve1").VirtualMachine(t.Context(), 500)
			if want := "500 Configuration file 'nodes/pve1/qemu-server/500.conf' does not exist"; err == nil || err.Error() != want {
				t.Errorf("%v, want %s", err, want)
			}
		})
	}
}

// TestMachineRunsItsUserData makes a machine as the driver does.
func TestMachineRunsItsUserData(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir()) // where the client writes the CD
	mark := filepath.Join(t.TempDir(), "mark")
	ctx, dir := t.Context(), t.TempDir()
	client := connect(serving(t, "--speed", "1000", "--dir", dir), proxmox.WithHTTPClient(&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}))
	node := (&proxmox.Node{}).New(client, "pve1")
	end := func(task *proxmox.Task, err error) {
		t.Helper()
		if err == nil {
			err = task.Wait(ctx, 5*time.Millisecond, time.Minute)
		}
		if err != nil || task.ExitStatus != "OK" {
			t.Fatal(err, task)
		}
	}
	template, err := node.VirtualMachine(ctx, 9001)
	if err != nil {
		t.Fatal(err)
	}
	_, task, err := template.Clone(ctx, &proxmox.VirtualMachineCloneOptions{NewID: 10000, Name: "knc1"})
	end(task, err)
	vm, err := node.VirtualMachine(ctx, 10000)
	if err != nil {
		t.Fatal(err)
	}
	if err := vm.CloudInit(ctx, "ide2", "#!/bin/sh\necho $$ > "+mark+"\n", "instance-id: knc1\n", "", ""); err != nil {
		t.Fatal(err)
	}
	task, err = vm.Start(ctx)
	end(task, err)
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		if pid, err := os.ReadFile(mark); err == nil && len(bytes.TrimSpace(pid)) > 0 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("the user data never ran")
		}
	}
	task, err = vm.Stop(ctx)
	end(task, err)
}

func TestPeople(t *testing.T) {
	cloud := proxmoxfake.New(proxmoxfake.Options{})
	cloud.Plant(proxmoxfake.Machine{VMID: 500, Name: "pet", Node: "pve1", Running: true})
	h := withPeople(cloud)
	ask := func(method, path string) string {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), method, path, nil))
		return fmt.Sprintf("%d %s", w.Code, w.Body)
	}
	for _, c := range []struct{ path, want string }{
		{"machines/pet/kill", "200 "},
		{"machines/pet/kill", "404 there is nothing to which that can happen: /fake/machines/pet/kill\n"},
		{"machines/pet/move/pve2", "200 "},
		{"nodes/pve2/away", "200 "},
		{"nodes/pve9/away", "404 there is nothing to which that can happen: /fake/nodes/pve9/away\n"},
		{"nodes/pve2/back", "200 "},
	} {
		if got := ask(http.MethodPost, "/fake/"+c.path); got != c.want {
			t.Errorf("%s: %q, want %q", c.path, got, c.want)
		}
	}
	const want = `200 [{"vmid":500,"name":"pet","node":"pve2","running":false,"tags":""}]` + "\n"
	if got := ask(http.MethodGet, "/fake/machines"); got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if got := ask(http.MethodPost, "/fake/machines/pet/remove"); got != "200 " || len(cloud.Machines()) != 0 {
		t.Error(got, cloud.Machines())
	}
}

func TestBadFlags(t *testing.T) {
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"--speed", "0"}, "--speed 0 is not above 0"},
		{[]string{"serve"}, `unexpected argument "serve"; see --help`},
		{[]string{"--listen", "nowhere"}, "missing port in address"},
	} {
		if err := run(t.Context(), c.args, io.Discard, io.Discard); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v: %v, want %s", c.args, err, c.want)
		}
	}
	var help bytes.Buffer
	if err := run(t.Context(), []string{"--help"}, io.Discard, &help); err != nil || !strings.Contains(help.String(), "-ca-file") {
		t.Errorf("%v: %s", err, help.String())
	}
	if err := run(t.Context(), []string{"--nothing"}, io.Discard, io.Discard); err == nil || errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}
