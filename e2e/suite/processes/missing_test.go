package processes_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"nstance.dev/e2e/env/box"
)

// unready is a server program and an environment in which it cannot do its work.
type unready struct {
	program  string
	provider string // kind, region and zone, as JSON
	subnet   string
	env      []string
	says     []string // that and what to do
}

// Each server build says what it lacks before it does anything, and ends with 1.
func TestServersSayWhatIsMissing(t *testing.T) {
	t.Parallel()
	account := filepath.Join(t.TempDir(), "account.json")
	text := `{"type": "authorized_user", "client_id": "x", "client_secret": "x", "refresh_token": "x"}`
	if err := os.WriteFile(account, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	const (
		aws    = `"kind": "aws", "region": "us-east-1", "zone": "us-east-1a"`
		google = `"kind": "google", "zone": "europe-west1-b"`
		pve    = `"kind": "proxmox", "zone": "rack-1"`
	)
	for name, c := range map[string]unready{
		"aws, credentials": {"nstance-server-aws", aws, "subnet-1", []string{"AWS_EC2_METADATA_DISABLED=true"},
			[]string{"credentials", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "role"}},
		"gcp, credentials": {"nstance-server-gcp", google, "machines", []string{"GOOGLE_APPLICATION_CREDENTIALS=/nowhere/account.json"},
			[]string{"no credentials", "GOOGLE_APPLICATION_CREDENTIALS"}},
		"gcp, project": {"nstance-server-gcp", google, "machines", []string{"GOOGLE_APPLICATION_CREDENTIALS=" + account},
			[]string{"project: missing", "server.provider.options.project", "GOOGLE_CLOUD_PROJECT"}},
		"proxmox, token": {"nstance-server-proxmox", pve, "vmbr0", nil,
			[]string{"PROXMOX_TOKEN_ID is not set"}},
		"proxmox, secret of the token": {"nstance-server-proxmox", pve, "vmbr0", []string{"PROXMOX_TOKEN_ID=nstance@pve!server"},
			[]string{"PROXMOX_TOKEN_SECRET is not set"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c.ends(t)
		})
	}
}

// ends runs the program until it ends by itself.
func (c unready) ends(t *testing.T) {
	dir := t.TempDir()
	bucket := filepath.Join(dir, "bucket")
	if err := os.MkdirAll(filepath.Join(bucket, "config"), 0o700); err != nil {
		t.Fatal(err)
	}
	config := fmt.Sprintf(`{"server": {"cluster_id": "c", "shard": "one", "provider": {%s}, "subnet_pools": {"p": [%q]},
		"error_exit_jitter": {"min_delay": "0s", "max_delay": "0s"}}}`, c.provider, c.subnet)
	if err := os.WriteFile(filepath.Join(bucket, "config", "one.jsonc"), []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, box.Binary(t, c.program), "serve", "--id", "server-1", "--shard", "one",
		"--storage", "file", "--bucket", bucket, "--cachedir", filepath.Join(dir, "cache"), "--bind-host", "127.72.0.1")
	cmd.Env = append([]string{"HOME=" + dir, "PATH=/usr/bin:/bin"}, c.env...)
	out, err := cmd.CombinedOutput()
	if code := cmd.ProcessState.ExitCode(); code != 1 {
		t.Errorf("exit code %d, not 1: %v\n%s", code, err, out)
	}
	_, last, _ := strings.Cut("\n"+string(out), "\nerror: ")
	for _, word := range c.says {
		if !strings.Contains(last, word) {
			t.Errorf("the error does not mention %q:\n%s", word, out)
		}
	}
	if led, _ := filepath.Glob(filepath.Join(bucket, "leader", "*")); len(led) > 0 {
		t.Errorf("it led before that: %v", led)
	}
}
