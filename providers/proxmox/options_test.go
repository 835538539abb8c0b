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
		"a secret in it":  {map[string]string{EnvTokenID: "nstance@pve!server=" + secret}, "holds a secret too"},
		"two secrets":     {map[string]string{EnvTokenID: "nstance@pve!server", EnvTokenSecret: secret, EnvTokenSecretFile: "/x"}, "are both set"},
		"one bad address": {map[string]string{EnvURL: "https://pve1:8006,ftp://pve2", EnvTokenID: "nstance@pve!server", EnvTokenSecret: secret}, EnvURL + " is not the address"},
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

// The environment of other programs for Proxmox VE will do, where ours is not set; a token
// is never put together from two.
func TestEnviron(t *testing.T) {
	file := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(file, []byte("from-a-file\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		env             map[string]string
		url, id, secret string
	}{
		"nothing":  {nil, "https://localhost:8006/api2/json", "", ""},
		"ours":     {map[string]string{EnvURL: "https://pve1:8006/api2/json", EnvTokenID: "a@pve!b", EnvTokenSecret: "c", "PM_API_URL": "https://x", "PM_API_TOKEN_ID": "x@pve!x"}, "https://pve1:8006/api2/json", "a@pve!b", "c"},
		"a file":   {map[string]string{EnvTokenID: "a@pve!b", EnvTokenSecretFile: file, "PM_API_TOKEN_SECRET": "x"}, "https://localhost:8006/api2/json", "a@pve!b", "from-a-file"},
		"one name": {map[string]string{"PROXMOX_VE_ENDPOINT": "https://pve1:8006/", "PROXMOX_VE_API_TOKEN": "a@pve!b=c-d"}, "https://pve1:8006/api2/json", "a@pve!b", "c-d"},
		"another":  {map[string]string{"PM_API_URL": "https://pve1/api2/json/", "PM_API_TOKEN_ID": "a@pve!b", "PM_API_TOKEN_SECRET": "c"}, "https://pve1/api2/json", "a@pve!b", "c"},
		"several":  {map[string]string{EnvURL: "https://pve1:8006, https://pve2:8006/proxy/api2/json", EnvTokenID: "a@pve!b", EnvTokenSecret: "c"}, "https://pve1:8006/api2/json https://pve2:8006/proxy/api2/json", "a@pve!b", "c"},
	} {
		opts, _ := Options{}.Environ(environ(c.env)).complete()
		var urls []string
		for _, u := range opts.urls {
			urls = append(urls, u.String())
		}
		if got := strings.Join(urls, " "); got != c.url || opts.TokenID != c.id || opts.TokenSecret != c.secret {
			t.Errorf("%s: %q, %q, %q", name, got, opts.TokenID, opts.TokenSecret)
		}
	}
}
