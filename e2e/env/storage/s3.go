package storage

import (
	"context"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// S3 starts a server of the S3 protocol. What is in its buckets survives Kill and
// Start.
func S3(t testing.TB) *Server {
	t.Helper()
	return S3At(t, "127.0.0.1")
}

// S3At is [S3] at an address of this host by which others reach it too.
func S3At(t testing.TB, address string) *Server {
	t.Helper()
	path, addr, root := binary(t, "versitygw"), net.JoinHostPort(address, freePort(t, address)), t.TempDir()
	data := filepath.Join(root, "data")
	if err := os.Mkdir(data, 0o700); err != nil {
		t.Fatal(err)
	}
	s := &Server{
		Kind: "s3",
		URL:  "http://" + addr,
		t:    t,
		env: []string{
			"AWS_ENDPOINT_URL=http://" + addr, "AWS_S3_USE_PATH_STYLE=true", "AWS_REGION=us-east-1",
			"AWS_ACCESS_KEY_ID=test", "AWS_SECRET_ACCESS_KEY=test-secret", "AWS_SESSION_TOKEN=",
			"AWS_CONFIG_FILE=/dev/null", "AWS_SHARED_CREDENTIALS_FILE=/dev/null",
			"AWS_EC2_METADATA_DISABLED=true",
		},
	}
	s.command = func() *exec.Cmd {
		cmd := exec.Command(path, "--quiet", "--keep-alive", "--port", addr, "posix", data)
		cmd.Env = append(os.Environ(), "ROOT_ACCESS_KEY=test", "ROOT_SECRET_KEY=test-secret")
		return cmd
	}
	// A directory of the root is a bucket.
	s.create = func(_ context.Context, name string) error { return os.Mkdir(filepath.Join(data, name), 0o700) }
	return s.run()
}
