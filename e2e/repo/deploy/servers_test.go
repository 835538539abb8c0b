package deploy_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/zclconf/go-cty/cty"

	"nstance.dev/server/driver/drivertest/guest"
)

// server is a program that notes how it was started, and goes on.
const server = `#!/bin/sh
printf '%s|%s\n' "$NSTANCE_SERVER_ARGS" "${AWS_REGION-}" >"$GUEST_DIR/found.new"
mv "$GUEST_DIR/found.new" "$GUEST_DIR/found"
while :; do sleep 0.1; done
`

// web is curl on a machine whose web has the program and a metadata service.
const web = `#!/bin/sh
to= url= metadata=
while [ $# -gt 0 ]; do
	case $1 in
	-o) to=$2; shift ;;
	-H) metadata=$2; shift ;;
	http*) url=$1 ;;
	esac
	shift
done
case $url in
https://example.com/nstance-server) cp "$GUEST_DIR/nstance-server" "$to" ;;
http://169.254.169.254/latest/api/token) echo session ;;
http://169.254.169.254/latest/meta-data/instance-id) [ "$metadata" = 'X-aws-ec2-metadata-token: session' ] && echo i-0123 ;;
http://169.254.169.254/computeMetadata/v1/instance/id) [ "$metadata" = 'Metadata-Flavor: Google' ] && echo 4711 ;;
*) echo "no such address: $url" >&2; exit 22 ;;
esac
`

// TestServersStart boots the machines that the modules of each cloud make for servers:
// they fetch the program, hold it against its checksum, and start it as the unit says.
func TestServersStart(t *testing.T) {
	sum := sha256.Sum256([]byte(server))
	good, other := hex.EncodeToString(sum[:]), hex.EncodeToString(make([]byte, 32))
	for _, cloud := range []struct {
		name, found string
		script      func(*evaluation) (cty.Value, error)
	}{
		{"aws", "--id i-0123 --shard example --storage s3 --bucket example|example\n", func(e *evaluation) (cty.Value, error) {
			return e.attribute("aws_launch_template.server", "user_data")
		}},
		{"gcp", "--id 4711 --shard example --storage gcs --bucket example|\n", func(e *evaluation) (cty.Value, error) {
			metadata, err := e.attribute("google_compute_instance_template.server", "metadata")
			if err != nil {
				return metadata, err
			}
			return metadata.GetAttr("startup-script"), nil
		}},
	} {
		t.Run(cloud.name, func(t *testing.T) {
			script, err := cloud.script(worked(t, filepath.Join(terraform, cloud.name, "shard"), good))
			if err != nil {
				t.Fatal(err)
			}
			found, log := bootServer(t, plain(script))
			if got := await(t, found, log); got != cloud.found {
				t.Errorf("the server was started with %q, want %q", got, cloud.found)
			}
		})
		t.Run(cloud.name+" another program", func(t *testing.T) {
			script, err := cloud.script(worked(t, filepath.Join(terraform, cloud.name, "shard"), other))
			if err != nil {
				t.Fatal(err)
			}
			found, log := bootServer(t, plain(script))
			awaitEnd(t, log)
			if _, err := os.Stat(found); err == nil {
				t.Error("a program with another checksum was started")
			}
		})
	}
}

// plain is user data without the encoding of EC2.
func plain(script cty.Value) []byte {
	if text, err := base64.StdEncoding.DecodeString(script.AsString()); err == nil {
		return text
	}
	return []byte(script.AsString())
}

// bootServer starts a machine for as long as the test lasts. It returns where its
// server notes what it found, and what the machine prints.
func bootServer(t *testing.T, script []byte) (found, log string) {
	t.Helper()
	dir := t.TempDir()
	curl := filepath.Join(dir, "root", "usr", "local", "bin", "curl")
	for _, folder := range []string{filepath.Dir(curl), filepath.Join(dir, "root", "etc", "systemd", "system")} {
		if err := os.MkdirAll(folder, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for path, program := range map[string]string{curl: web, filepath.Join(dir, "nstance-server"): server} {
		if err := os.WriteFile(path, []byte(program), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	m, err := guest.Start(guest.Options{Dir: dir, UserData: script})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(m.Kill)
	return filepath.Join(dir, "found"), filepath.Join(dir, "log")
}

// awaitEnd returns when a machine's script has failed.
func awaitEnd(t *testing.T, log string) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		text, _ := os.ReadFile(log) // which may not be there yet
		if bytes.Contains(text, []byte("boot: exit code 1\n")) {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("the script does not fail:\n%s", text)
		}
	}
}
