package cli_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"math/big"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protojson"

	"nstance.dev/admin/cli"
	"nstance.dev/agent/paver/render"
	nstancev1 "nstance.dev/protos/nstance/v1"
)

// authority writes a certificate that an API server could be trusted by.
func authority(t *testing.T) string {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	of := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true}
	der, err := x509.CreateCertificate(rand.Reader, of, of, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "ca.crt")
	if err := os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// printed is what mcfg render -o json prints.
type printed struct {
	Files []struct {
		Place, Path, Mode, Link, Content string
		Secret                           bool
	}
}

// M97: what is printed is, byte by byte, what a host renders of the assignment that it is told; nothing is written or locked.
func TestM97_RenderIsWhatAHostWrites(t *testing.T) {
	c, s := hostsConsole(t)
	dir := t.TempDir()
	facts := filepath.Join(dir, "facts.json")
	host := render.Host{ResolvConf: "nameserver 10.0.0.2\n", PodResolvConf: "nameserver 10.0.0.2\n", Paths: map[string]string{}}
	text, err := json.Marshal(host)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(facts, text, 0o600); err != nil {
		t.Fatal(err)
	}
	for version, motd := range map[string]string{"1": "hello\nworld\n", "2": "hello\nthere\n", "": "hello\nthere\n"} {
		args := append([]string{"mcfg", "render", "gpu"}, strings.Fields(version)...)
		args = append(args, "--machine", "m1", "--api-server", "https://api.example:6443", "--api-server-ca", authority(t), "--host-facts", facts)
		m := &nstancev1.MachineAssignment{}
		if err := protojson.Unmarshal([]byte(c.ok(t, append(slices.Clone(args), "--assignment")...)), m); err != nil {
			t.Fatal(err)
		}
		if epoch := m.GetEpoch(); epoch != 3 && version == "1" || epoch != 4 && version != "1" {
			t.Errorf("version %q: epoch %d: 3 is the one that is assigned", version, epoch)
		}
		host.Machine = "node-a"
		plan, err := render.Render(m, host, nil)
		if err != nil {
			t.Fatal(err)
		}
		var out printed
		if err := json.Unmarshal([]byte(c.ok(t, append(slices.Clone(args), "-o", "json")...)), &out); err != nil {
			t.Fatal(err)
		}
		if len(out.Files) != len(plan.Files) || len(plan.Files) < 10 {
			t.Fatalf("version %q: %d files, and a host writes %d", version, len(out.Files), len(plan.Files))
		}
		for i, f := range plan.Files {
			got := out.Files[i]
			if got.Place != string(f.Place) || got.Path != f.Path || got.Content != f.Content || got.Link != f.Link || got.Secret != f.Secret {
				t.Errorf("version %q: %s:%s differs from what a host writes", version, got.Place, got.Path)
			}
			if f.Link != "" || f.Content == "" {
				continue
			}
			if one := c.ok(t, append(slices.Clone(args), "--file", string(f.Place)+":"+f.Path)...); one != f.Content {
				t.Errorf("version %q: %s alone is %q, want %q", version, f.Path, one, f.Content)
			}
		}
		if got := c.ok(t, append(slices.Clone(args), "--file", "slot:/etc/motd")...); got != motd {
			t.Errorf("version %q: /etc/motd is %q", version, got)
		}
		if text := c.ok(t, args...); !strings.Contains(text, "==> slot:/etc/motd (0644)\n"+motd) {
			t.Errorf("version %q:\n%s", version, text)
		}
		if names := c.ok(t, append(slices.Clone(args), "-o", "name")...); !strings.Contains(names, "slot:/etc/motd\n") || strings.Count(names, "\n") != len(plan.Files) {
			t.Errorf("version %q: %s", version, names)
		}
	}
	if writes := s.Writes(); len(writes) > 0 {
		t.Errorf("it has written: %v", writes)
	}
}

// M97: the files of two versions are compared line by line, and what the machine has already is compared with the newest.
func TestM97_DiffOfFiles(t *testing.T) {
	c, s := hostsConsole(t)
	for _, versions := range []string{"1 2", "v1"} {
		args := append(append([]string{"mcfg", "diff", "gpu"}, strings.Fields(versions)...), "--machine", "m1", "--api-server", "https://api.example:6443", "--api-server-ca", authority(t))
		text := c.ok(t, args...)
		if !strings.Contains(text, "==> slot:/etc/motd changed\n hello\n-world\n+there\n\n") {
			t.Errorf("%s:\n%s", versions, text)
		}
		names := c.ok(t, append(slices.Clone(args), "-o", "name")...)
		if !strings.Contains(names, "slot:/etc/motd\n") || strings.Contains(names, "kubelet.yaml") {
			t.Errorf("%s: differ %q", versions, names)
		}
		var all []struct {
			Place, Path, Kind string
			Lines             []string
		}
		if err := json.Unmarshal([]byte(c.ok(t, append(slices.Clone(args), "-o", "json")...)), &all); err != nil || len(all) != strings.Count(names, "\n") {
			t.Errorf("%s: %v, %v", versions, all, err)
		}
	}
	if got := c.ok(t, "mcfg", "diff", "gpu", "2", "2", "--machine", "m1", "--api-server", "https://api.example:6443", "--api-server-ca", authority(t)); got != "" {
		t.Errorf("a version differs from itself: %s", got)
	}
	if writes := s.Writes(); len(writes) > 0 {
		t.Errorf("it has written: %v", writes)
	}
}

// What cannot be rendered says what is missing.
func TestM97_RenderNamesTheRemedy(t *testing.T) {
	c, _ := hostsConsole(t)
	for args, want := range map[string]string{
		"mcfg render gpu": "--machine is required",
		"mcfg render gpu --machine m1 --host-facts /nowhere": "--host-facts",
		"mcfg render gpu --machine m1 --api-server-ca /none": "--api-server-ca",
		"mcfg render gpu newest --machine m1":                "must be a number from 1",
		"mcfg render gpu --machine m1 --node /nowhere":       "--node",
	} {
		if got := c.fails(t, cli.ExitUsage, strings.Fields(args)...); !strings.Contains(got, want) {
			t.Errorf("%s: %q, want %q", args, got, want)
		}
	}
	for args, want := range map[string]string{
		"mcfg render gpu --machine m9":   "m9 not found",
		"mcfg render gpu 9 --machine m1": "gpu-v9 not found",
		"mcfg render gpu --machine m1 --file slot:/no --api-server https://a:1 --api-server-ca " + authority(t): "there is no file slot:/no",
		"mcfg render gpu --machine m1 --api-server http://a.example --api-server-ca " + authority(t):            "apiServer.endpoint",
		"mcfg render gpu --machine m1 --api-server https://a.example":                                           "apiServer.caBundle: has no certificate in PEM",
	} {
		if got := c.fails(t, cli.ExitFailed, strings.Fields(args)...); !strings.Contains(got, want) {
			t.Errorf("%s: %q, want %q", args, got, want)
		}
	}
}
