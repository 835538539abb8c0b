package proxmox

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func environ(set map[string]string) func(string) string {
	return func(name string) string { return set[name] }
}

func TestNewSaysWhatIsMissing(t *testing.T) {
	const secret = "11111111-2222-4333-8444-555555555555"
	for name, c := range map[string]struct {
		env  map[string]string
		want string // empty: nothing is
	}{
		"no token":        {nil, EnvTokenID + " is not set"},
		"no secret":       {map[string]string{EnvTokenID: "nstance@pve!server"}, EnvTokenSecret + " is not set"},
		"half an id":      {map[string]string{EnvTokenID: "nstance@pve", EnvTokenSecret: secret}, "must be like nstance@pve!server"},
		"another address": {map[string]string{EnvURL: "pve1:8006", EnvTokenID: "nstance@pve!server", EnvTokenSecret: secret}, EnvURL + " is not the address"},
		"all of it":       {map[string]string{EnvTokenID: "nstance@pve!server", EnvTokenSecret: secret}, ""},
	} {
		_, err := New(Options{}.Environ(environ(c.env)))
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want an error with %q", name, err, c.want)
		}
		if err != nil && strings.Contains(err.Error(), secret) {
			t.Errorf("S14: %s: the secret is in the error", name)
		}
	}
}

func TestParseOptions(t *testing.T) {
	got, err := ParseOptions(map[string]any{
		"insecure_tls": true, "ca_file": "/etc/ca.pem", "cloud_init_iso_storage": "cephfs", "provider_uri": "ccm",
	})
	want := Options{InsecureTLS: true, CAFile: "/etc/ca.pem", ISOStorage: "cephfs", ProviderURI: "ccm"}
	if err != nil || got.InsecureTLS != want.InsecureTLS || got.CAFile != want.CAFile || got.ISOStorage != want.ISOStorage || got.ProviderURI != want.ProviderURI {
		t.Errorf("%+v, %v; want %+v", got, err, want)
	}
	for key, value := range map[string]any{
		"insecure_tls": "yes", "ca_file": 1, "cloud_init_iso_storage": "a b", "provider_uri": "aws", "endpoint": "https://pve",
	} {
		if err := checkOption(key, value); err == nil {
			t.Errorf("%s = %v is taken", key, value)
		}
	}
}

func TestCAFile(t *testing.T) {
	empty := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(empty, []byte("no certificate"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{empty, filepath.Join(t.TempDir(), "none")} {
		_, err := New(Options{TokenID: "a@pve!b", TokenSecret: "c", CAFile: path})
		if err == nil || !strings.Contains(err.Error(), "ca_file: ") {
			t.Errorf("%s: %v", path, err)
		}
	}
}
