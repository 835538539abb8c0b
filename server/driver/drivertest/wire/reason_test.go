package wire_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"nstance.dev/server/driver/drivertest/wire"
)

func TestReasonStandsInTheStatusLine(t *testing.T) {
	h := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		wire.WriteReason(w, http.StatusInternalServerError, "VM 100 is\nrunning\n", []byte(`{"data":null}`))
	})
	server := httptest.NewServer(h)
	defer server.Close()
	for name, c := range map[string]struct {
		url    string
		client *http.Client
	}{
		"in process":    {"http://cloud/", &http.Client{Transport: wire.RoundTripper(h)}},
		"over a socket": {server.URL, server.Client()},
	} {
		t.Run(name, func(t *testing.T) {
			res, err := c.client.Get(c.url)
			if err != nil {
				t.Fatal(err)
			}
			defer res.Body.Close()
			body, err := io.ReadAll(res.Body)
			if res.Status != "500 VM 100 is running" || string(body) != `{"data":null}` || err != nil {
				t.Errorf("%q, %q, %v", res.Status, body, err)
			}
			if got := res.Header.Get("Content-Type"); got != "application/json" {
				t.Errorf("content type %q", got)
			}
		})
	}
}
