package content

import (
	"crypto/x509"
	"errors"
	"io"
	"log"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"nstance.dev/agent/paver/artifact"
	"nstance.dev/agent/paver/cache"
	"nstance.dev/agent/paver/digest"
	"nstance.dev/agent/paver/image"
	"nstance.dev/agent/paver/policy"
	"nstance.dev/agent/paver/treetest"
	nstancev1 "nstance.dev/protos/nstance/v1"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// program is a static program, built once: it says what the file beside it says.
var program = sync.OnceValues(func() ([]byte, error) {
	const source = "../artifact/testdata/say/main.go"
	if _, err := os.Stat(source); err != nil { // Go's test cache knows of it by that, and not by the build
		return nil, err
	}
	dir, err := os.MkdirTemp("", "say")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	build := exec.Command("go", "build", "-o", filepath.Join(dir, "say"), source)
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return nil, errors.New(string(out))
	}
	return os.ReadFile(filepath.Join(dir, "say"))
})

// says are a program of a tree that says a line, and the line.
func says(t testing.TB, name, line string) []treetest.Entry {
	t.Helper()
	data, err := program()
	if err != nil {
		t.Fatal(err)
	}
	entry := treetest.File(name, string(data))
	entry.Mode = 0o755
	return []treetest.Entry{entry, treetest.File(name+".says", line)}
}

// fixture is a server of files, and a host with a store.
type fixture struct {
	*Store
	t     testing.TB
	url   string
	roots *x509.CertPool

	mu    sync.Mutex
	files map[string][]byte
	asked []string
}

func newFixture(t testing.TB, policyText string) *fixture {
	t.Helper()
	f := &fixture{t: t, files: map[string][]byte{}, roots: x509.NewCertPool()}
	server := httptest.NewUnstartedServer(f)
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.StartTLS()
	t.Cleanup(server.Close)
	f.roots.AddCert(server.Certificate())
	f.url = server.URL
	c, err := cache.Open(t.Context(), filepath.Join(t.TempDir(), "cache"), cache.Options{MaxShare: 100, MinFree: 1, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	f.Store = New(c, Options{
		Policy: func() (policy.Policy, error) {
			return policy.Parse([]byte(strings.ReplaceAll(policyText, "HOST", strings.TrimPrefix(f.url, "https://"))))
		},
		Roots: f.roots, Arch: "amd64", Log: slog.New(slog.DiscardHandler),
	})
	return f
}

func (f *fixture) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.asked = append(f.asked, r.URL.Path)
	data, ok := f.files[r.URL.Path]
	if !ok {
		w.WriteHeader(http.StatusNotFound)
		return
	}
	_, _ = w.Write(data)
}

// serve puts a file on the server and returns its address and digest.
func (f *fixture) serve(path string, data []byte) (url, sum string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.files[path] = data
	return f.url + path, digest.Of(data).String()
}

// assignment is one of an archive whose programs are all but the kubelet, which is an artifact.
func (f *fixture) assignment() *nstancev1.MachineAssignment {
	root := append([]treetest.Entry{treetest.File("usr/lib/systemd/systemd", "i"), treetest.File("etc/os-release", "ID=x")}, says(f.t, "usr/bin/containerd", "containerd 2")...)
	root = append(root, says(f.t, "usr/sbin/runc", "runc 1")...)
	root = append(root, treetest.File("usr/local/bin/kubelet.says", "Kubernetes v1.36.3"))
	image := &nstancev1.MachineArchive{}
	image.Url, image.Sha256 = f.serve("/images/root.tar", treetest.Archive(f.t, root...))
	kubelet := &nstancev1.MachineArtifact{}
	data, err := program()
	if err != nil {
		f.t.Fatal(err)
	}
	kubelet.Url, kubelet.Sha256 = f.serve("/images/kubelet", data)
	return &nstancev1.MachineAssignment{Epoch: 1, Template: &nstancev1.MachineTemplate{
		Image:      &nstancev1.MachineImage{Source: &nstancev1.MachineImage_Archive{Archive: image}},
		Kubernetes: &nstancev1.MachineKubernetes{Version: "v1.36.3", Artifacts: &nstancev1.MachineArtifacts{Kubelet: kubelet}},
	}}
}

func TestAnAssignmentsContentIsFetchedOnce(t *testing.T) {
	treetest.NeedRoot(t)
	f := newFixture(t, "allow: {pave: true}\n")
	a := f.assignment()
	if err := f.Fetch(t.Context(), a, nil); err != nil {
		t.Fatal(err)
	}
	asked := len(f.asked)
	dir, release, err := f.Root(t.Context(), a, nil)
	if err != nil {
		t.Fatal(err)
	}
	slot := filepath.Join(t.TempDir(), "slot")
	if err := os.CopyFS(slot, os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	release()
	files, err := f.Install(t.Context(), a, slot)
	if err != nil || len(files) != 1 || files[0].Path != "/usr/local/bin/kubelet" {
		t.Errorf("installed is %+v, %v", files, err)
	}
	if len(f.asked) != asked {
		t.Errorf("asked for again: %q", f.asked[asked:])
	}
	if err := errors.Join(f.Trim(t.Context()), f.Clear()); err != nil {
		t.Error(err)
	}
	if err := f.Fetch(t.Context(), a, nil); err != nil || len(f.asked) != 2*asked {
		t.Errorf("after it was cleared: %v, %q", err, f.asked)
	}
}

// What is wrong with an image or an artifact shows before anything else is touched.
func TestM57_WhatCannotBeUsedShowsWithTheFetch(t *testing.T) {
	treetest.NeedRoot(t)
	none := strings.Repeat("0", 64)
	for name, c := range map[string]struct {
		policy string
		change func(*nstancev1.MachineTemplate)
		says   string
		err    error
	}{
		"another version": {change: func(t *nstancev1.MachineTemplate) {
			t.Kubernetes.Artifacts.Kubelet = nil
		}, says: "the image has no kubelet", err: artifact.ErrUnusable},
		"a wrong digest of an artifact": {change: func(t *nstancev1.MachineTemplate) { t.Kubernetes.Artifacts.Kubelet.Sha256 = "sha256:" + none }, says: "artifact kubelet", err: digest.ErrMismatch},
		"no digest of an artifact":      {change: func(t *nstancev1.MachineTemplate) { t.Kubernetes.Artifacts.Kubelet.Sha256 = none }, says: "kubernetes.artifacts.kubelet.sha256", err: image.ErrInvalid},
		"a wrong digest of the image":   {change: func(t *nstancev1.MachineTemplate) { t.Image.GetArchive().Sha256 = "sha256:" + none }, says: "archive", err: digest.ErrMismatch},
		"an archive of the servers":     {change: func(t *nstancev1.MachineTemplate) { t.Image.GetArchive().Url = "" }, says: "image.archive.storageKey", err: image.ErrInvalid},
		"no image":                      {change: func(t *nstancev1.MachineTemplate) { t.Image = nil }, says: "exactly one of", err: image.ErrInvalid},
		"an artifact from elsewhere": {policy: "images: {prefixes: [\"HOST/images/root\"]}", change: func(*nstancev1.MachineTemplate) {},
			says: "kubernetes.artifacts.kubelet.url", err: image.ErrRefused},
		"a policy that asks for signatures": {policy: "images:\n  publicKeys: [\"" + strings.ReplaceAll(publicKey, "\n", "\\n") + "\"]", change: func(*nstancev1.MachineTemplate) {},
			says: "has no signature", err: image.ErrRefused},
		"a policy that cannot be read": {policy: "images: 1", change: func(*nstancev1.MachineTemplate) {}, says: "policy.Images"},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, "allow: {pave: true}\n"+c.policy+"\n")
			a := f.assignment()
			c.change(a.Template)
			err := f.Fetch(t.Context(), a, nil)
			if err == nil || !strings.Contains(err.Error(), c.says) || c.err != nil && !errors.Is(err, c.err) {
				t.Errorf("got %v, want %q", err, c.says)
			}
		})
	}
}

const publicKey = `-----BEGIN PUBLIC KEY-----
MCowBQYDK2VwAyEA11qYAYKxCrfVS/7TyWQHOg7hcvPapiMlrwIaaPcHURo=
-----END PUBLIC KEY-----
`

// TestAnArchiveOfTheStorage: by its key below the address at which this host reads it, and by no key
// that leads elsewhere.
func TestAnArchiveOfTheStorage(t *testing.T) {
	for key, says := range map[string]string{
		"images/root.tar": "", "images/a b?c#d.tar": "", "images/../images/root.tar": "is not the key of an object", "../images/root.tar": "is not the key", "/images/root.tar": "is not the key",
		"": "is not the key", "..": "is not the key", "images//root.tar": "is not the key",
	} {
		f := newFixture(t, "allow: {pave: true}\n")
		a := f.assignment()
		f.serve("/bucket/prefix/"+key, f.files["/images/root.tar"])
		archive := a.Template.Image.GetArchive()
		archive.Url, archive.StorageKey = "", key
		f.opts.Storage = f.url + "/bucket/prefix/"
		err := f.Fetch(t.Context(), a, nil)
		if (err == nil) != (says == "") || err != nil && !strings.Contains(err.Error(), says) {
			t.Errorf("%q: %v", key, err)
		}
	}
}

func TestM99_TheImageComesThroughTheMirrorsWithItsOwnSecret(t *testing.T) {
	secret := []byte(`{"auths":{"registry.example.com":{"username":"u","password":"marked"}}}`)
	oci := &nstancev1.MachineOciImage{Reference: "registry.example.com/node:1", Digest: "sha256:" + strings.Repeat("0", 64), PullSecret: "pull"}
	a := &nstancev1.MachineAssignment{Template: &nstancev1.MachineTemplate{
		Image: &nstancev1.MachineImage{Source: &nstancev1.MachineImage_Oci{Oci: oci}},
		Machine: &nstancev1.MachineSettings{PullSecret: "pods", Registries: []*nstancev1.MachineRegistry{
			{Host: "registry.example.com", Mirrors: []*nstancev1.MachineMirror{{Url: "https://mirror.example.com", CaBundle: "pem"}}},
		}},
	}}
	src, missing, err := source(a, &nstancev1.MachineCredential{PullSecrets: map[string][]byte{"pull": secret, "pods": []byte("other")}}, "")
	if err != nil || missing != "" {
		t.Fatalf("%q, %v", missing, err)
	}
	login, err := src.OCI.Secret.For("registry.example.com", "node").Authorization()
	if err != nil || login.Password != "marked" {
		t.Errorf("the login is of %q, %v", login.Username, err)
	}
	want := []image.Registry{{Host: "registry.example.com", Mirrors: []image.Mirror{{URL: "https://mirror.example.com", CABundle: "pem"}}}}
	if d := cmp.Diff(want, src.OCI.Registries); d != "" || src.OCI.Reference != oci.Reference || src.OCI.Digest != oci.Digest {
		t.Errorf("%+v\n%s", src.OCI, d)
	}
	if _, missing, err := source(a, nil, ""); missing != "pull" || err != nil {
		t.Errorf("without a credential: %q, %v", missing, err)
	}
	_, _, err = source(a, &nstancev1.MachineCredential{PullSecrets: map[string][]byte{"pull": []byte("marked")}}, "")
	if err == nil || strings.Contains(err.Error(), "marked") || !strings.Contains(err.Error(), "image.oci.pullSecret pull") {
		t.Errorf("a secret that cannot be read: %v", err)
	}
}

func TestASecretThatHasNotArrivedIsNamed(t *testing.T) {
	f := newFixture(t, "allow: {pave: true}\n")
	a := &nstancev1.MachineAssignment{Template: &nstancev1.MachineTemplate{Image: &nstancev1.MachineImage{Source: &nstancev1.MachineImage_Oci{
		Oci: &nstancev1.MachineOciImage{Reference: strings.TrimPrefix(f.url, "https://") + "/node:1", PullSecret: "pull"},
	}}}}
	if err := f.Fetch(t.Context(), a, nil); err == nil || !strings.Contains(err.Error(), "pull secret pull has not arrived") {
		t.Errorf("got %v", err)
	}
}
