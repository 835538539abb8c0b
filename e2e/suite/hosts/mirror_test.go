//go:build hosts

package hosts_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/encoding/protowire"

	"nstance.dev/agent/paver/journal"
	"nstance.dev/agent/paver/render"
	"nstance.dev/agent/paver/runner"
	"nstance.dev/agent/paver/runner/direct"
	nstancev1 "nstance.dev/protos/nstance/v1"
)

// mirror serves one image over TLS, and counts who asked for it.
type mirror struct {
	*httptest.Server
	mu    sync.Mutex
	asked map[string]int
}

func (m *mirror) pulls(what string) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.asked[what]
}

// ca is what its certificate is verified with.
func (m *mirror) ca() string {
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: m.Certificate().Raw}))
}

type descriptor struct {
	MediaType string `json:"mediaType"`
	Digest    string `json:"digest"`
	Size      int    `json:"size"`
}

func newMirror(t *testing.T) *mirror {
	t.Helper()
	blobs := map[string][]byte{}
	add := func(mediaType string, content []byte) descriptor {
		digest := fmt.Sprintf("sha256:%x", sha256.Sum256(content))
		blobs[digest] = content
		return descriptor{mediaType, digest, len(content)}
	}
	encode := func(value any) []byte {
		text, err := json.Marshal(value)
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	var plain, packed bytes.Buffer
	files, zipped := tar.NewWriter(&plain), gzip.NewWriter(&packed)
	if err := errors.Join(files.WriteHeader(&tar.Header{Name: "hello", Mode: 0o644, Size: 2}), second(files.Write([]byte("hi"))), files.Close(), second(zipped.Write(plain.Bytes())), zipped.Close()); err != nil {
		t.Fatal(err)
	}
	layer := add("application/vnd.oci.image.layer.v1.tar+gzip", packed.Bytes())
	config := add("application/vnd.oci.image.config.v1+json", encode(map[string]any{
		"architecture": "amd64", "os": "linux", "rootfs": map[string]any{"type": "layers", "diff_ids": []string{fmt.Sprintf("sha256:%x", sha256.Sum256(plain.Bytes()))}},
	}))
	const manifestType = "application/vnd.oci.image.manifest.v1+json"
	manifest := add(manifestType, encode(map[string]any{"schemaVersion": 2, "mediaType": manifestType, "config": config, "layers": []descriptor{layer}}))

	m := &mirror{asked: map[string]int{}}
	m.Server = httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		m.mu.Lock()
		m.asked[r.URL.Query().Get("ns")]++
		m.mu.Unlock()
		_, name, _ := strings.Cut(r.URL.Path, "/v2/app/")
		kind, digest, _ := strings.Cut(name, "/")
		if kind == "manifests" && digest == "1" {
			digest = manifest.Digest
		}
		content, there := blobs[digest]
		if !there {
			http.NotFound(w, r)
			return
		}
		if digest == manifest.Digest {
			w.Header().Set("Content-Type", manifestType)
		}
		w.Header().Set("Docker-Content-Digest", digest)
		http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(content))
	}))
	t.Cleanup(m.Close)
	return m
}

func second[T any](_ T, err error) error { return err }

// TestM99_ImagesComeThroughTheMirror: containerd, as it is set up in a machine, fetches the image of a Pod
// from the mirrors in their order while the registry itself is away, and from none whose certificate
// cannot be verified.
func TestM99_ImagesComeThroughTheMirror(t *testing.T) {
	const name = "mirrored-a"
	machines := trees(t, name)
	for program, to := range map[string]string{"containerd": "usr/local/bin/containerd", "runc": "usr/local/bin/runc"} {
		from, err := exec.LookPath(program)
		if err != nil {
			t.Fatal(err)
		}
		text, err := os.ReadFile(from)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(machines, name, to), text, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	good, strange := newMirror(t), newMirror(t)
	away := httptest.NewTLSServer(nil)
	away.Close()
	plan, err := render.Render(&nstancev1.MachineAssignment{
		MachineName: "m", NodeName: "n", Epoch: 1, Configuration: &nstancev1.MachineConfigurationVersion{Name: "c", Version: 1, Hash: "sha256:" + strings.Repeat("0", 64)},
		ApiServer: &nstancev1.MachineApiServer{Endpoint: "https://192.0.2.1", CaBundle: bundle(t)},
		Template: &nstancev1.MachineTemplate{
			Kubernetes: &nstancev1.MachineKubernetes{Version: "v1.36.3"},
			Machine: &nstancev1.MachineSettings{Registries: []*nstancev1.MachineRegistry{
				{Host: "registry.invalid", Mirrors: []*nstancev1.MachineMirror{{Url: away.URL}, {Url: good.URL, CaBundle: good.ca()}, {Url: strange.URL, CaBundle: strange.ca()}}},
				{Host: "unverified.invalid", Mirrors: []*nstancev1.MachineMirror{{Url: strange.URL}}},
			}},
		},
	}, render.Host{Machine: name, Paths: map[string]string{}, ResolvConf: "\n", PodResolvConf: "\n"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(machines, name), plan.Of(render.Slot))

	r := direct.New(direct.Options{Machines: machines, Logs: t.TempDir(), Name: func(journal.Slot) string { return name }})
	if err := r.Boot(t.Context(), journal.A); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := r.Kill(context.WithoutCancel(t.Context()), journal.A); err != nil {
			t.Error(err)
		}
		expectNothingLeft(t, name)
	})
	state, err := r.State(t.Context(), journal.A)
	if err != nil {
		t.Fatal(err)
	}
	waitFor(t, r, "containerd")
	conn, err := grpc.NewClient("unix://"+filepath.Join("/proc", itoa(state.Leader.PID), "root", render.ContainerdSocket), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()

	if err := pull(t, conn, "registry.invalid/app:1"); err != nil {
		t.Errorf("pull: %v", err)
	}
	if good.pulls("registry.invalid") == 0 || strange.pulls("registry.invalid") > 0 {
		t.Errorf("the second mirror was asked %d times, the third %d times", good.pulls("registry.invalid"), strange.pulls("registry.invalid"))
	}
	if err := pull(t, conn, "unverified.invalid/app:1"); err == nil || strange.pulls("unverified.invalid") > 0 {
		t.Errorf("an image came from a mirror that cannot be verified: %v", err)
	}
}

// waitFor waits until a unit of the machine is active.
func waitFor(t *testing.T, r runner.Runner, unit string) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(100 * time.Millisecond) {
		out, err := r.Exec(t.Context(), journal.A, "systemctl", "is-active", unit)
		if err == nil && out.Code == 0 {
			return
		}
		if time.Now().After(deadline) {
			log, _ := r.Exec(t.Context(), journal.A, "journalctl", "--no-pager", "--unit", unit)
			t.Fatalf("%s is %q, %v\n%s", unit, out.Text, err, log.Text)
		}
	}
}

// pull asks the container runtime for an image as a kubelet does.
func pull(t *testing.T, conn *grpc.ClientConn, image string) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	spec := protowire.AppendString(protowire.AppendTag(nil, 1, protowire.BytesType), image)
	request := raw(protowire.AppendBytes(protowire.AppendTag(nil, 1, protowire.BytesType), spec))
	var answer raw
	return conn.Invoke(ctx, "/runtime.v1.ImageService/PullImage", &request, &answer, grpc.ForceCodec(codec{}), grpc.WaitForReady(true))
}

// raw is a message that is encoded already.
type raw []byte

type codec struct{}

func (codec) Marshal(message any) ([]byte, error) { return *message.(*raw), nil }

func (codec) Unmarshal(data []byte, message any) error {
	*message.(*raw) = bytes.Clone(data)
	return nil
}

func (codec) Name() string { return "proto" }
