package processes_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/cookiejar"
	"regexp"
	"strings"
	"testing"
	"time"

	"nstance.dev/e2e/env/box"
)

var consoleAddress = regexp.MustCompile(`console: (http://[^/]+)(/\?token=\S+)`)

// The one command of a new user brings the console up too, which shows the machines to whom
// it has given the address, and ends with it.
func TestDev_ServesTheConsole(t *testing.T) {
	b := box.New(t)
	p := b.Dev(2)
	b.Await("two machines run", func() error { return b.Settled("web", 2, time.Time{}) })
	var at, login string
	b.Await("dev prints the address of the console", func() error {
		found := consoleAddress.FindStringSubmatch(p.Output())
		if found == nil {
			return fmt.Errorf("it has printed %q", p.Output())
		}
		at, login = found[1], found[2]
		return nil
	})
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	client := &http.Client{Jar: jar, Timeout: 20 * time.Second}
	defer client.CloseIdleConnections()
	get := func(path string) (int, string) {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, at+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		answer, err := client.Do(r)
		if err != nil {
			return 0, err.Error()
		}
		defer func() { _ = answer.Body.Close() }()
		text, err := io.ReadAll(answer.Body)
		if err != nil {
			t.Fatal(err)
		}
		return answer.StatusCode, string(text)
	}
	if status, text := get("/api/console/session"); status != http.StatusUnauthorized {
		t.Errorf("before the login the session answers %d %s", status, text)
	}
	if status, text := get(login); status != http.StatusOK || !strings.Contains(text, `<div id="app">`) {
		t.Errorf("the login answers %d %s", status, text)
	}
	if status, text := get("/api/console/session"); status != http.StatusOK || !strings.Contains(text, `"actions":["scale"`) {
		t.Errorf("the session answers %d %s", status, text)
	}
	if status, text := get("/api/v1/shards/" + box.Shard + "/instances"); status != http.StatusOK || strings.Count(text, `"instanceId"`) != 2 {
		t.Errorf("the instances are %d %s", status, text)
	}
	if code := p.Stop(t); code != 0 {
		t.Errorf("SIGTERM: exit code %d", code)
	}
	if status, text := get("/"); status != 0 {
		t.Errorf("the console goes on without the cluster: %d %.100s", status, text)
	}
}

func TestDev_WithoutTheConsole(t *testing.T) {
	b := box.New(t)
	p := b.Dev(1, "--console=false")
	b.Await("a machine runs", func() error { return b.Settled("web", 1, time.Time{}) })
	if code := p.Stop(t); code != 0 || strings.Contains(p.Output(), "console:") {
		t.Errorf("exit code %d, it has printed\n%s", code, p.Output())
	}
}
