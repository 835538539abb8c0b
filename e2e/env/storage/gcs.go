package storage

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"strings"
	"testing"
)

// GCS starts an emulator of Google Cloud Storage. Its buckets are lost by Kill.
func GCS(t testing.TB) *Server {
	t.Helper()
	path, port := binary(t, "fake-gcs-server"), freePort(t, "127.0.0.1")
	url := "http://127.0.0.1:" + port
	s := &Server{Kind: "gcs", URL: url, t: t, env: []string{"STORAGE_EMULATOR_HOST=" + url}}
	s.command = func() *exec.Cmd {
		return exec.Command(path, "-scheme", "http", "-host", "127.0.0.1", "-port", port,
			"-public-host", "127.0.0.1:"+port, "-external-url", url, "-backend", "memory", "-log-level", "error")
	}
	s.create = func(ctx context.Context, name string) error { return createGCSBucket(ctx, url, name) }
	return s.run()
}

func createGCSBucket(ctx context.Context, url, name string) error {
	body := strings.NewReader(fmt.Sprintf(`{"name":%q}`, name))
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url+"/storage/v1/b?project=test", body)
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Close = true
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(io.LimitReader(resp.Body, 1000))
		return fmt.Errorf("%s: %s", resp.Status, text)
	}
	return nil
}
