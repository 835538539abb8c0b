package gcs_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"nstance.dev/server/objectstore"
	"nstance.dev/server/objectstore/gcs"
)

// open returns a store whose emulator is handler.
func open(t *testing.T, handler http.Handler, opts gcs.Options) *gcs.Store {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	t.Setenv("STORAGE_EMULATOR_HOST", server.URL)
	opts.Bucket = "bucket"
	s, err := gcs.New(t.Context(), opts)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// answer is what the store says to a request it does not carry out.
func answer(status int, message string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		fmt.Fprintf(w, `{"error":{"code":%d,"message":%q}}`, status, message)
	}
}

// reset ends the connection without an answer.
func reset(w http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body)
	conn, _, err := w.(http.Hijacker).Hijack()
	if err != nil {
		panic(err)
	}
	_ = conn.(*net.TCPConn).SetLinger(0)
	_ = conn.Close()
}

// silent takes a request and does not answer it.
func silent(_ http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body)
	<-r.Context().Done()
}

var sentinels = []error{
	objectstore.ErrNotFound, objectstore.ErrPrecondition, objectstore.ErrConflict,
	objectstore.ErrThrottled, objectstore.ErrUnavailable,
}

// wantOnly checks that err matches want and no other sentinel; nil is permanent.
func wantOnly(t *testing.T, what string, err, want error) {
	t.Helper()
	if err == nil {
		t.Errorf("%s: no error", what)
	}
	for _, sentinel := range sentinels {
		if errors.Is(err, sentinel) != errors.Is(want, sentinel) {
			t.Errorf("%s: %v; want %v", what, err, want)
		}
	}
	if errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%s: %v matches the end of a context that has not ended", what, err)
	}
}

// call calls the method by its name.
func call(ctx context.Context, s *gcs.Store, name string) (err error) {
	switch name {
	case "get":
		_, err = s.Get(ctx, "k")
	case "create":
		_, err = s.PutIfAbsent(ctx, "k", nil)
	case "replace":
		_, err = s.PutIfMatch(ctx, "k", nil, "7")
	case "delete":
		err = s.DeleteIfMatch(ctx, "k", "7")
	case "list":
		_, err = s.List(ctx, "", "", 0)
	}
	return err
}

var methods = []string{"get", "create", "replace", "delete", "list"}

func TestF5_AnswersAndTheirMeaning(t *testing.T) {
	for _, tt := range []struct {
		name   string
		answer http.HandlerFunc
		want   error
	}{
		{"precondition failed", answer(412, "conditionNotMet"), objectstore.ErrPrecondition},
		{"conflict", answer(409, "conflict"), objectstore.ErrConflict},
		{"too many requests", answer(429, "rateLimitExceeded"), objectstore.ErrThrottled},
		{"unavailable", answer(503, "backendError"), objectstore.ErrUnavailable},
		{"internal error", answer(500, "internalError"), objectstore.ErrUnavailable},
		{"request timeout", answer(408, "uploadBrokenConnection"), objectstore.ErrUnavailable},
		{"connection reset", reset, objectstore.ErrUnavailable},
		{"no such bucket", answer(404, "Not Found"), nil},
		{"conditions unknown", answer(501, "notImplemented"), nil},
		{"denied", answer(403, "forbidden"), nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := open(t, tt.answer, gcs.Options{})
			for _, name := range methods {
				wantOnly(t, name, call(t.Context(), s, name), tt.want)
			}
		})
	}
}

func TestAMissingObjectIsNoMissingBucket(t *testing.T) {
	listings := 0
	s := open(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/b/bucket/o") && r.Method == http.MethodGet {
			listings++
			fmt.Fprint(w, "{}") // the bucket is there, and empty
			return
		}
		answer(404, "Not Found")(w, r)
	}), gcs.Options{})
	for range 3 {
		wantOnly(t, "get", call(t.Context(), s, "get"), objectstore.ErrNotFound)
		wantOnly(t, "delete", call(t.Context(), s, "delete"), objectstore.ErrNotFound)
	}
	if listings != 1 {
		t.Errorf("asked %d times whether the bucket is there", listings)
	}
	wantOnly(t, "create", call(t.Context(), s, "create"), nil) // only a bucket can lack there
}

func TestF3_NoAnswerIsAnUnknownOutcome(t *testing.T) {
	s := open(t, http.HandlerFunc(silent), gcs.Options{Timeout: 50 * time.Millisecond})
	for _, name := range methods {
		wantOnly(t, name, call(t.Context(), s, name), objectstore.ErrUnavailable)
	}
	for _, name := range methods {
		ctx, cancel := context.WithCancel(t.Context())
		s := open(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			cancel()
			silent(w, r)
		}), gcs.Options{})
		if err := call(ctx, s, name); !errors.Is(err, context.Canceled) || !errors.Is(err, objectstore.ErrUnavailable) {
			t.Errorf("%s, cancelled under way: %v", name, err)
		}
		if err := call(ctx, s, name); !errors.Is(err, context.Canceled) || errors.Is(err, objectstore.ErrUnavailable) {
			t.Errorf("%s, cancelled before: %v", name, err)
		}
	}
}

// Only then is the outcome of a conditional write seen: a second request would
// be refused because of the first.
func TestF3_AWriteIsOneRequest(t *testing.T) {
	for name, want := range map[string]int64{"create": 1, "replace": 1, "delete": 1, "get": 3, "list": 3} {
		for fault, handler := range map[string]http.HandlerFunc{"503": answer(503, "backendError"), "reset": reset} {
			var requests atomic.Int64
			s := open(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				requests.Add(1)
				handler(w, r)
			}), gcs.Options{})
			wantOnly(t, name, call(t.Context(), s, name), objectstore.ErrUnavailable)
			if got := requests.Load(); got != want {
				t.Errorf("%s after %s: %d requests, want %d", name, fault, got, want)
			}
		}
	}
}

func TestRequestsCarryTheirCondition(t *testing.T) {
	var got string
	s := open(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		got = r.URL.Query().Get("ifGenerationMatch")
		fmt.Fprint(w, `{"generation":"9"}`)
	}), gcs.Options{})
	for name, want := range map[string]string{"create": "0", "replace": "7", "delete": "7"} {
		if err := call(t.Context(), s, name); err != nil || got != want {
			t.Errorf("%s: condition %q, want %q; %v", name, got, want, err)
		}
	}
}

// A generation of 0 as a condition would mean that there is no object.
func TestS1_NoEtagStandsForAbsence(t *testing.T) {
	s := open(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet {
			t.Errorf("sent %s %s", r.Method, r.URL)
		}
	}), gcs.Options{})
	for _, etag := range []string{"0", "-1", "x", "7 "} {
		_, err := s.PutIfMatch(t.Context(), "k", nil, etag)
		wantOnly(t, "replace "+etag, err, objectstore.ErrPrecondition)
		wantOnly(t, "delete "+etag, s.DeleteIfMatch(t.Context(), "k", etag), objectstore.ErrPrecondition)
	}
}

func TestNewSaysWhatIsMissing(t *testing.T) {
	if _, err := gcs.New(t.Context(), gcs.Options{}); err == nil || !strings.Contains(err.Error(), "no name") {
		t.Errorf("error is %v", err)
	}
	t.Setenv("STORAGE_EMULATOR_HOST", "")
	t.Setenv("GOOGLE_APPLICATION_CREDENTIALS", "/nonexistent.json")
	if _, err := gcs.New(t.Context(), gcs.Options{Bucket: "b"}); err == nil || !strings.Contains(err.Error(), "nonexistent.json") {
		t.Errorf("error is %v", err)
	}
}
