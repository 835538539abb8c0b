package release_test

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"nstance.dev/tools/release"
)

var at = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// TestVersionsAreOrdered: package managers see what comes first.
func TestVersionsAreOrdered(t *testing.T) {
	for name, want := range map[string]string{
		"v1.2.3": "1.2.3", "1.2.3": "1.2.3", "v1.2.3-rc.1": "1.2.3~rc.1", "v1.2.3-4-gabcdef0": "1.2.3~4.gabcdef0",
		"3be2737": "0.0.0~20260102030405.3be2737", "3be2737-dirty": "0.0.0~20260102030405.3be2737.dirty",
	} {
		if got := (release.Version{Name: name, Created: at}).Package(); got != want {
			t.Errorf("%s is %s, want %s", name, got, want)
		}
	}
}

// TestArchivesAreEqual: neither the order of the files nor their times and owners count.
func TestArchivesAreEqual(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "a")
	if err := os.WriteFile(file, []byte("a"), 0o600); err != nil {
		t.Fatal(err)
	}
	a, b := release.File{From: file, To: "bin/a", Mode: 0o755}, release.File{Data: []byte("b"), To: "b", Mode: 0o644}
	first, err := release.Archive("x", []release.File{a, b}, at)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Chtimes(file, time.Now(), time.Now().Add(-time.Hour)); err != nil {
		t.Fatal(err)
	}
	second, err := release.Archive("x", []release.File{b, a}, at)
	if err != nil || !bytes.Equal(first, second) {
		t.Errorf("two archives of the same files differ (%v)", err)
	}
	if other, err := release.Archive("x", []release.File{b, a}, at.Add(time.Second)); err != nil || bytes.Equal(first, other) {
		t.Errorf("the time of the commit is not in the archive (%v)", err)
	}
}

// TestUnitsMentionTheirProgram: a unit that does not run what the package installs is refused.
func TestUnitsMentionTheirProgram(t *testing.T) {
	for _, pkg := range release.Manifest("bin", "../../deploy", "") {
		for _, f := range pkg.Files {
			if !strings.HasPrefix(f.To, "usr/lib/systemd/") {
				continue
			}
			if _, err := release.Archive("x", []release.File{f}, at); err != nil {
				t.Errorf("%s: %v", pkg.Name, err)
			}
		}
	}
	bad := release.File{From: "doc.go\x00/nowhere/program\x00/usr/bin/program", To: "unit"}
	if _, err := release.Archive("x", []release.File{bad}, at); err == nil {
		t.Error("a unit without its program was packed")
	}
}

// TestSignatures: who has the public key and openssl or cosign can check a signature.
func TestSignatures(t *testing.T) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	text := pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})
	signature, err := release.Sign(text, []byte("data"))
	if err != nil {
		t.Fatal(err)
	}
	raw, err := base64.StdEncoding.DecodeString(strings.TrimSpace(string(signature)))
	sum, other := sha256.Sum256([]byte("data")), sha256.Sum256([]byte("date"))
	if err != nil || !ecdsa.VerifyASN1(&key.PublicKey, sum[:], raw) || ecdsa.VerifyASN1(&key.PublicKey, other[:], raw) {
		t.Errorf("the signature %q does not fit the data alone (%v)", signature, err)
	}
	public, err := release.PublicKey(text)
	block, _ := pem.Decode(public)
	if err != nil || block == nil {
		t.Fatalf("public key %q, %v", public, err)
	}
	if parsed, err := x509.ParsePKIXPublicKey(block.Bytes); err != nil || !key.PublicKey.Equal(parsed) {
		t.Errorf("the public key is another one (%v)", err)
	}
	if _, err := release.Sign([]byte("no key"), nil); err == nil || !strings.Contains(err.Error(), "PEM") {
		t.Errorf("without a key: %v", err)
	}
}

// TestBillOfMaterials: this test's own program names its modules.
func TestBillOfMaterials(t *testing.T) {
	v := release.Version{Name: "v1.2.3", Commit: "c", Created: at}
	data, err := release.BillOfMaterials(os.Args[0], v)
	if err != nil {
		t.Fatal(err)
	}
	var bill struct {
		BOMFormat  string `json:"bomFormat"`
		Components []struct{ Name, Version, PURL string }
	}
	if err := json.Unmarshal(data, &bill); err != nil || bill.BOMFormat != "CycloneDX" || len(bill.Components) == 0 || bill.Components[0].PURL == "" {
		t.Errorf("%+v, %v", bill, err)
	}
	if _, err := release.BillOfMaterials("doc.go", v); err == nil {
		t.Error("a file that is no program has a bill")
	}
}

const help = `Set how many there are.

Usage:
  nstance-admin group [command]

Available Commands:
  apply       Create or change groups
  help        Help about any command

Flags:
      --all   .of them

Use "nstance-admin group [command] --help" for more information about a command.
`

func TestPages(t *testing.T) {
	page, below := release.Page([]string{"nstance-admin", "group"}, help, release.Version{Name: "v1.2.3", Created: at})
	if len(below) != 1 || below[0] != "apply" {
		t.Errorf("below it are %v", below)
	}
	for _, want := range []string{`.TH NSTANCE\-ADMIN\-GROUP 1 "2026-01-02" "1.2.3"`, `nstance\-admin\-group \- Set how many there are`, ".SH FLAGS\n"} {
		if !strings.Contains(string(page), want) {
			t.Errorf("the page has no %q:\n%s", want, page)
		}
	}
}

func FuzzPage(f *testing.F) {
	f.Add(help)
	f.Fuzz(func(t *testing.T, text string) {
		page, _ := release.Page([]string{"a"}, text, release.Version{Name: "v1.0.0", Created: at})
		for line := range strings.Lines(string(page)) {
			if strings.HasPrefix(line, ".") && !strings.HasPrefix(line, ".TH ") && !strings.HasPrefix(line, ".SH ") && line != ".nf\n" && line != ".fi\n" {
				t.Fatalf("text became a request: %q", line)
			}
		}
	})
}

// TestProvenance: every file is a subject, with its sum.
func TestProvenance(t *testing.T) {
	dir := t.TempDir()
	if err := release.Write(dir, "a/b", []byte("b")); err != nil {
		t.Fatal(err)
	}
	sums, err := release.Sums(dir)
	if err != nil {
		t.Fatal(err)
	}
	const sum = "3e23e8160039594a33894f6564e1b1348bbd7a0088d42c4acb73eeaed59c009d"
	if got := string(release.Checksums(sums)); got != sum+"  a/b\n" {
		t.Errorf("checksums: %q", got)
	}
	statement, err := release.Provenance(sums, release.Version{Name: "v1.2.3", Commit: "0123", Created: at}, release.Builder{ID: "me", Source: "git"})
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{sum, `"gitCommit": "0123"`, "https://slsa.dev/provenance/v1"} {
		if !strings.Contains(string(statement), want) {
			t.Errorf("the statement has no %s:\n%s", want, statement)
		}
	}
}
