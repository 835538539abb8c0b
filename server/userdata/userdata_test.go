package userdata_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"nstance.dev/server/config/document"
	"nstance.dev/server/userdata"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var epoch = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func TestFetch(t *testing.T) {
	plain := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "in the clear") }))
	defer plain.Close()
	secure := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/good":
			fmt.Fprint(w, "#!/bin/sh\n")
		case "/moved":
			http.Redirect(w, r, "/good", http.StatusFound)
		case "/down":
			http.Redirect(w, r, plain.URL+"/good?signature=s3cret", http.StatusFound)
		case "/round":
			http.Redirect(w, r, "/round?signature=s3cret", http.StatusFound)
		case "/empty":
		case "/full":
			_, _ = w.Write(make([]byte, document.MaxUserdata))
		case "/large":
			_, _ = w.Write(make([]byte, document.MaxUserdata+1))
		case "/cut":
			w.Header().Set("Content-Length", "100")
			fmt.Fprint(w, "half of i")
		default:
			http.Error(w, "s3cret page", http.StatusForbidden)
		}
	}))
	defer secure.Close()
	transport := secure.Client().Transport.(*http.Transport)
	defer transport.CloseIdleConnections()
	f := userdata.NewFetcher(transport)
	for path, want := range map[string]struct {
		bytes int
		err   string
	}{
		"/good?signature=s3cret": {bytes: 10},
		"/moved":                 {bytes: 10},
		"/full":                  {bytes: document.MaxUserdata},
		"/down":                  {err: "leaves https"},
		"/round":                 {err: "more than 3 redirections"},
		"/empty":                 {err: "empty"},
		"/large":                 {err: "larger than"},
		"/cut":                   {err: "unexpected EOF"},
		"/x?signature=s3cret":    {err: "status 403"},
	} {
		data, err := f.Fetch(t.Context(), secure.URL+path)
		if want.err == "" {
			if err != nil || len(data) != want.bytes {
				t.Errorf("%s: %d bytes, %v; want %d", path, len(data), err, want.bytes)
			}
			continue
		}
		if err == nil || !strings.Contains(err.Error(), want.err) || !strings.Contains(err.Error(), strings.TrimPrefix(secure.URL, "https://")) {
			t.Errorf("%s: %v, want one that says %q and names the host", path, err, want.err)
		}
		if err != nil && strings.Contains(err.Error(), "s3cret") {
			t.Errorf("S14: the error says %q", err)
		}
	}
	for _, address := range []string{plain.URL + "/good", "file:///etc/passwd", "https://", "::", "ftp://host/x"} {
		if _, err := f.Fetch(t.Context(), address); err == nil {
			t.Errorf("%s was fetched", address)
		}
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := f.Fetch(ended, secure.URL+"/good"); !errors.Is(err, context.Canceled) {
		t.Errorf("with a cancelled context: %v", err)
	}
}

func TestPlaceHidesWhatMayBeSecret(t *testing.T) {
	for address, want := range map[string]string{
		"https://user:pass@host:8443/a/b?X-Amz-Signature=1#frag": "https://host:8443/a/b",
		"https://host":  "https://host",
		"https://h\x00": "an invalid address",
	} {
		if got := userdata.Place(address); got != want {
			t.Errorf("%q: %q, want %q", address, got, want)
		}
	}
}

func TestShelf(t *testing.T) {
	const address = "https://host/userdata"
	down := errors.New("down")
	for _, tt := range []struct {
		name string
		puts map[time.Duration]error // outcomes of requests, by when they ended
		at   time.Duration
		want string // "fetch", "copy" or "error"
	}{
		{"nothing yet", nil, 0, "fetch"},
		{"just fetched", map[time.Duration]error{0: nil}, 9 * time.Second, "copy"},
		{"fetched a while ago", map[time.Duration]error{0: nil}, 10 * time.Second, "fetch"},
		{"failed just now, fetched before", map[time.Duration]error{0: nil, 59 * time.Minute: down}, 59*time.Minute + time.Second, "copy"},
		{"failed just now, fetched too long ago", map[time.Duration]error{0: nil, 61 * time.Minute: down}, 61 * time.Minute, "error"},
		{"failed just now, never fetched", map[time.Duration]error{0: down}, time.Second, "error"},
		{"failed a while ago", map[time.Duration]error{0: down}, 10 * time.Second, "fetch"},
	} {
		var s userdata.Shelf
		for _, at := range []time.Duration{0, 59 * time.Minute, 61 * time.Minute} {
			if err, ended := tt.puts[at]; ended {
				s.Put(address, []byte("text"), err, epoch.Add(at))
			}
		}
		data, err := s.Take(address, epoch.Add(tt.at))
		got := "fetch"
		switch {
		case err != nil:
			got = "error"
		case data != nil:
			got = "copy"
		}
		if got != tt.want {
			t.Errorf("%s: %s, want %s", tt.name, got, tt.want)
		}
	}
}

func TestS22_ShelfIsBounded(t *testing.T) {
	var s userdata.Shelf
	for i := range 1000 {
		s.Put(fmt.Sprint("https://host/", i), []byte("text"), nil, epoch.Add(time.Duration(i)*time.Millisecond))
	}
	there := 0
	for i := range 1000 {
		if data, _ := s.Take(fmt.Sprint("https://host/", i), epoch.Add(time.Second)); data != nil {
			there++
		}
	}
	if there != 64 {
		t.Errorf("%d copies of 1000, want the last 64", there)
	}
}
