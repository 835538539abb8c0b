package processes_test

import (
	"bytes"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"nstance.dev/e2e/env/box"
)

// template is what the tests change in the configuration of a box.
const template = `"instance_type": "process",`

// withFiles is the configuration with files for every machine, all of one version.
func withFiles(text, version string) string {
	files := fmt.Sprintf(`"vars": { "version": %q },
      "files": {
        "app.env":  { "kind": "env", "template": { "VERSION": "{{ .Vars.version }}", "ID": "{{ .Instance.ID }}" } },
        "app.json": { "kind": "json", "template": { "version": "{{ .Vars.version }}" } },
        "motd":     { "kind": "string", "template": "{{ .Vars.version }}\n" },
        "node.crt": { "kind": "certificate", "template": "node", "key": { "source": "agent", "name": "node.pub" } }
      },`, version)
	text = strings.Replace(text, template, template+"\n      "+files, 1)
	return strings.Replace(text, `"templates": {`, `"certificates": {
    "node": { "kind": "peer", "cn": "node:{{ .Instance.ID }}", "dns": ["{{ .Instance.ID }}.example"] }
  },

  "templates": {`, 1)
}

// holdsVersion says what is wrong with a machine that should have everything of one version.
func holdsVersion(b *box.Box, id, version string) error {
	for name, want := range map[string]string{
		"app.env":  fmt.Sprintf("ID=%s\nVERSION=%s\n", id, version),
		"app.json": fmt.Sprintf("{\n  \"version\": %q\n}\n", version),
		"motd":     version + "\n",
	} {
		got, err := os.ReadFile(b.Path("machines", id, "recv", name))
		if err != nil {
			return err
		}
		if string(got) != want {
			return fmt.Errorf("%s of %s is %q, want %q", name, id, got, want)
		}
	}
	return nil
}

// holdsCertificate says what is wrong with a machine that should have a certificate of the
// cluster for its own key.
func holdsCertificate(b *box.Box, id string) error {
	cert, err := readPEM(b.Path("machines", id, "recv", "node.crt"))
	if err != nil {
		return err
	}
	leaf, err := x509.ParseCertificate(cert)
	if err != nil {
		return err
	}
	public, err := readPEM(b.Path("machines", id, "keys", "node.pub"))
	if err != nil {
		return err
	}
	if string(leaf.RawSubjectPublicKeyInfo) != string(public) {
		return fmt.Errorf("the certificate of %s is for another key", id)
	}
	authority, err := os.ReadFile(b.Path("bucket", "ca.crt"))
	if err != nil {
		return err
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(authority)
	_, err = leaf.Verify(x509.VerifyOptions{DNSName: id + ".example", Roots: roots})
	return err
}

func readPEM(path string) ([]byte, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	block, _ := pem.Decode(data)
	if block == nil {
		return nil, fmt.Errorf("%s is not in PEM form", path)
	}
	return block.Bytes, nil
}

// oneHash says which machine has another configuration than the first.
func oneHash(b *box.Box, ids []string) error {
	var first []byte
	for _, id := range ids {
		hash, err := os.ReadFile(b.Path("machines", id, "identity", "config.hash"))
		switch {
		case err != nil:
			return err
		case first == nil:
			first = hash
		case !bytes.Equal(hash, first):
			return fmt.Errorf("%s has configuration %s, the first has %s", id, hash, first)
		}
	}
	return nil
}

// An edit of the configuration reaches machines that run, as it does those that come later,
// and none of them is replaced for it.
func TestAnEditOfFilesReachesEveryMachine(t *testing.T) {
	t.Parallel()
	b, _ := up(t, 5)
	plain, before := b.Config(), b.Directories()
	for _, version := range []string{"1", "2"} {
		b.SetConfig(withFiles(plain, version))
		b.AdminOK("config", "refresh")
		b.Await("every machine has version "+version, func() error {
			for _, id := range before {
				if err := holdsVersion(b, id, version); err != nil {
					return err
				}
			}
			return nil
		})
	}
	b.Await("every machine has a certificate", func() error {
		for _, id := range before {
			if err := holdsCertificate(b, id); err != nil {
				return err
			}
		}
		return nil
	})
	b.Await("all have the same configuration", func() error { return oneHash(b, before) })
	if now := b.Directories(); !slices.Equal(now, before) {
		t.Errorf("machines are %v, were %v", now, before)
	}

	if err := b.Scale("web", 6); err != nil {
		t.Fatal(err)
	}
	b.Await("a new machine runs", func() error { return b.Settled("web", 6, time.Time{}) })
	b.Await("it has its files", func() error {
		for _, id := range b.Directories() {
			if err := holdsVersion(b, id, "2"); err != nil {
				return err
			}
			if err := holdsCertificate(b, id); err != nil {
				return err
			}
		}
		return nil
	})
}
