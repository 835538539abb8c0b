package release_test

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"nstance.dev/tools/release"
)

// built is a program that has modules of others in it. Programs that go test makes name none.
func built(t *testing.T) string {
	t.Helper()
	program := filepath.Join(t.TempDir(), "nstance-admin")
	build := exec.CommandContext(t.Context(), "go", "build", "-buildvcs=false", "-o", program, "nstance.dev/tools/release/cmd/licences")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return program
}

// sealed is a folder with a small release of a program, signed.
func sealed(t *testing.T, program string) string {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	dir, text := t.TempDir(), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})
	v := release.Version{Name: "v1.2.3", Commit: "0123", Created: at}
	write := func(name string, data []byte, err error) {
		t.Helper()
		if err == nil {
			err = release.Write(dir, name, data)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	write("packages/a.deb", []byte("a"), nil)
	bill, err := release.BillOfMaterials(program, v)
	write("sbom/nstance-admin_amd64.cdx.json", bill, err)
	sums, err := release.Sums(dir)
	if err != nil {
		t.Fatal(err)
	}
	statement, err := release.Provenance(sums, v, release.Builder{ID: "me", Source: "git"})
	write("provenance.intoto.json", statement, err)
	write("SHA256SUMS", release.Checksums(sums), nil)
	for _, name := range []string{"SHA256SUMS", "provenance.intoto.json"} {
		data, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		signature, err := release.Sign(text, data)
		write(name+".sig", signature, err)
	}
	public, err := release.PublicKey(text)
	write("nstance-release.pub", public, err)
	return dir
}

// typed runs the blocks of the section about verifying in dir, as its reader does. Only the place of
// files for a moment differs.
func typed(t *testing.T, dir, program string) (string, error) {
	t.Helper()
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "install-packages.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(page), "\n## Verify\n")
	section, _, _ = strings.Cut(section, "\n## ")
	blocks := regexp.MustCompile("(?s)<!-- run by: TestThePageVerifies .*?-->\n```sh\n(.*?)```").FindAllStringSubmatch(section, -1)
	if len(blocks) != 5 {
		t.Fatalf("the section has %d blocks for this test, want 5", len(blocks))
	}
	if err := os.Symlink(program, filepath.Join(dir, "nstance-admin")); err != nil { // as it comes out of an archive
		t.Fatal(err)
	}
	var script strings.Builder
	for _, block := range blocks {
		script.WriteString(strings.ReplaceAll(block[1], "/tmp/", t.TempDir()+"/"))
	}
	cmd := exec.CommandContext(t.Context(), "bash", "-euo", "pipefail", "-c", script.String())
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// TestThePageVerifies: its commands say yes to a release as it was made, and no after any change.
func TestThePageVerifies(t *testing.T) {
	program := built(t)
	out, err := typed(t, sealed(t, program), program)
	if err != nil || strings.Count(out, "Verified OK\n") != 2 || !strings.Contains(out, "std ") || !strings.Contains(out, "github.com/google/licensecheck v") || !strings.Contains(out, "\n0123\nme\n") {
		t.Errorf("%v:\n%s", err, out)
	}
	for _, name := range []string{"packages/a.deb", "SHA256SUMS", "provenance.intoto.json", "sbom/nstance-admin_amd64.cdx.json", "SHA256SUMS.sig"} {
		dir := sealed(t, program)
		data, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		data[len(data)/2] ^= 1
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
			t.Fatal(err)
		}
		if out, err := typed(t, dir, program); err == nil {
			t.Errorf("%s was changed, and the page's commands say\n%s", name, out)
		}
	}
	if out, err := typed(t, sealed(t, program), os.Args[0]); err == nil || !strings.Contains(out, "> github.com/google/licensecheck v") {
		t.Errorf("of a program that is not the one of the SBOM the page's commands say %v\n%s", err, out)
	}
}

// TestBillsFitTheirSchema: what CycloneDX publishes for the version that the document names.
func TestBillsFitTheirSchema(t *testing.T) {
	c := jsonschema.NewCompiler()
	c.AssertFormat()
	for _, name := range []string{"bom-1.5", "jsf-0.82", "spdx"} {
		text, err := os.ReadFile(filepath.Join("testdata", "cyclonedx", name+".schema.json"))
		if err != nil {
			t.Fatal(err)
		}
		document, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
		if err != nil {
			t.Fatal(err)
		}
		if err := c.AddResource("http://cyclonedx.org/schema/"+name+".schema.json", document); err != nil {
			t.Fatal(err)
		}
	}
	schema, err := c.Compile("http://cyclonedx.org/schema/bom-1.5.schema.json")
	if err != nil {
		t.Fatal(err)
	}
	data, err := release.BillOfMaterials(os.Args[0], release.Version{Name: "v1.2.3", Commit: "c", Created: at})
	if err != nil {
		t.Fatal(err)
	}
	fits := func(text string) error {
		bill, err := jsonschema.UnmarshalJSON(strings.NewReader(text))
		if err != nil {
			t.Fatal(err)
		}
		return schema.Validate(bill)
	}
	if err := fits(string(data)); err != nil {
		t.Errorf("%v\n%s", err, data)
	}
	for was, is := range map[string]string{`"type": "library"`: `"type": "module"`, `"specVersion"`: `"spec"`, `"CycloneDX"`: `"SPDX"`, at.Format("2006-01-02T"): "yesterday"} {
		if changed := strings.Replace(string(data), was, is, 1); changed == string(data) || fits(changed) == nil {
			t.Errorf("%s instead of %s fits, or is not there", is, was)
		}
	}
}
