package s3_test

import (
	"cmp"
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
	"nstance.dev/server/objectstore/s3"
)

// open returns a store whose endpoint is handler, and nothing of this box's own
// configuration.
func open(t *testing.T, handler http.Handler, opts s3.Options) *s3.Store {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	setenv(t, server.URL)
	opts.Bucket = cmp.Or(opts.Bucket, "bucket")
	s, err := s3.New(t.Context(), opts)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func setenv(t *testing.T, endpoint string) {
	t.Helper()
	for name, value := range map[string]string{
		"AWS_ENDPOINT_URL": endpoint, "AWS_S3_USE_PATH_STYLE": "true", "AWS_REGION": "us-east-1",
		"AWS_ACCESS_KEY_ID": "id", "AWS_SECRET_ACCESS_KEY": "key", "AWS_EC2_METADATA_DISABLED": "true",
		"AWS_CONFIG_FILE": "/dev/null", "AWS_SHARED_CREDENTIALS_FILE": "/dev/null", "AWS_PROFILE": "",
		"AWS_DEFAULT_REGION": "", "AWS_MAX_ATTEMPTS": "7",
	} {
		t.Setenv(name, value)
	}
}

// answer is what S3 says to a request it does not carry out.
func answer(status int, code string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/xml")
		w.WriteHeader(status)
		if code != "" {
			fmt.Fprintf(w, `<?xml version="1.0"?><Error><Code>%s</Code><Message>in test</Message></Error>`, code)
		}
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

func TestF5_AnswersAndTheirMeaning(t *testing.T) {
	tests := []struct {
		name   string
		answer http.HandlerFunc
		want   error
	}{
		{"precondition failed", answer(412, "PreconditionFailed"), objectstore.ErrPrecondition},
		{"conflict", answer(409, "ConditionalRequestConflict"), objectstore.ErrConflict},
		{"slow down", answer(503, "SlowDown"), objectstore.ErrThrottled},
		{"too many requests", answer(429, "TooManyRequests"), objectstore.ErrThrottled},
		{"unavailable", answer(503, "ServiceUnavailable"), objectstore.ErrUnavailable},
		{"internal error", answer(500, "InternalError"), objectstore.ErrUnavailable},
		{"bad gateway", answer(502, ""), objectstore.ErrUnavailable},
		{"request timeout", answer(400, "RequestTimeout"), objectstore.ErrUnavailable},
		{"clocks apart", answer(403, "RequestTimeTooSkewed"), objectstore.ErrUnavailable},
		{"connection reset", reset, objectstore.ErrUnavailable},
		{"an answer that is none", answer(200, ""), objectstore.ErrUnavailable},
		{"no such bucket", answer(404, "NoSuchBucket"), nil},
		{"not found by a proxy", answer(404, ""), nil},
		{"conditions unknown", answer(501, "NotImplemented"), nil},
		{"denied", answer(403, "AccessDenied"), nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := open(t, tt.answer, s3.Options{})
			if tt.name != "an answer that is none" {
				_, err := s.Get(t.Context(), "k")
				wantOnly(t, "get", err, tt.want)
				wantOnly(t, "delete", s.DeleteIfMatch(t.Context(), "k", `"e"`), tt.want)
			}
			_, err := s.PutIfAbsent(t.Context(), "k", []byte("x"))
			wantOnly(t, "create", err, tt.want)
			_, err = s.PutIfMatch(t.Context(), "k", []byte("x"), `"e"`)
			wantOnly(t, "replace", err, tt.want)
		})
	}
}

func TestAbsenceIsALostConditionToAReplacement(t *testing.T) {
	s := open(t, answer(404, "NoSuchKey"), s3.Options{})
	_, err := s.PutIfMatch(t.Context(), "k", nil, `"e"`)
	if !errors.Is(err, objectstore.ErrPrecondition) {
		t.Errorf("replace: %v", err)
	}
	_, err = s.Get(t.Context(), "k")
	wantOnly(t, "get", err, objectstore.ErrNotFound)
	wantOnly(t, "delete", s.DeleteIfMatch(t.Context(), "k", `"e"`), objectstore.ErrNotFound)
}

func TestF3_NoAnswerIsAnUnknownOutcome(t *testing.T) {
	s := open(t, http.HandlerFunc(silent), s3.Options{Timeout: 50 * time.Millisecond})
	_, err := s.PutIfAbsent(t.Context(), "k", nil)
	wantOnly(t, "the store's own time-out", err, objectstore.ErrUnavailable)
	_, err = s.Get(t.Context(), "k")
	wantOnly(t, "the store's own time-out", err, objectstore.ErrUnavailable)

	for _, key := range []string{"get", "create", "replace", "delete", "list"} {
		ctx, cancel := context.WithCancel(t.Context())
		s := open(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			cancel()
			silent(w, r)
		}), s3.Options{})
		if err := callAny(ctx, s, key); !errors.Is(err, context.Canceled) || !errors.Is(err, objectstore.ErrUnavailable) {
			t.Errorf("%s, cancelled under way: %v", key, err)
		}
		if err := callAny(ctx, s, key); !errors.Is(err, context.Canceled) || errors.Is(err, objectstore.ErrUnavailable) {
			t.Errorf("%s, cancelled before: %v", key, err)
		}
	}
}

// callAny calls the method by its name.
func callAny(ctx context.Context, s *s3.Store, name string) (err error) {
	switch name {
	case "get":
		_, err = s.Get(ctx, "k")
	case "create":
		_, err = s.PutIfAbsent(ctx, "k", nil)
	case "replace":
		_, err = s.PutIfMatch(ctx, "k", nil, `"e"`)
	case "delete":
		err = s.DeleteIfMatch(ctx, "k", `"e"`)
	case "list":
		_, err = s.List(ctx, "", "", 0)
	}
	return err
}

// Only then is the outcome of a conditional write seen: a second request would
// be refused because of the first.
func TestF3_AWriteIsOneRequest(t *testing.T) {
	for name, want := range map[string]int64{"create": 1, "replace": 1, "delete": 1, "get": 3, "list": 3} {
		for fault, handler := range map[string]http.HandlerFunc{"500": answer(500, "InternalError"), "reset": reset} {
			var requests atomic.Int64
			s := open(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				requests.Add(1)
				handler(w, r)
			}), s3.Options{})
			err := callAny(t.Context(), s, name)
			wantOnly(t, name, err, objectstore.ErrUnavailable)
			if got := requests.Load(); got != want {
				t.Errorf("%s after %s: %d requests, want %d", name, fault, got, want)
			}
		}
	}
}

func TestRequestsCarryTheirConditionAndNoChecksum(t *testing.T) {
	var got *http.Request
	s := open(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got = r
		w.Header().Set("ETag", `"new"`)
	}), s3.Options{Bucket: "b"})
	for name, want := range map[string]http.Header{
		"create": {"If-None-Match": {"*"}}, "replace": {"If-Match": {`"e"`}}, "delete": {"If-Match": {`"e"`}},
	} {
		if err := callAny(t.Context(), s, name); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if got.URL.Path != "/b/k" {
			t.Errorf("%s: path %s", name, got.URL.Path)
		}
		for header := range want {
			if got.Header.Get(header) != want.Get(header) {
				t.Errorf("%s: %s is %q", name, header, got.Header.Get(header))
			}
		}
		for header := range got.Header {
			if strings.HasPrefix(header, "X-Amz-Checksum") || header == "X-Amz-Sdk-Checksum-Algorithm" {
				t.Errorf("%s: sends %s", name, header)
			}
		}
	}
}

// An etag that as a condition would hold for many versions holds for none.
func TestS1_NoEtagStandsForEveryVersion(t *testing.T) {
	s := open(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet {
			t.Errorf("sent %s with %v", r.Method, r.Header)
		}
	}), s3.Options{})
	for _, etag := range []string{"*", `"a", "b"`} {
		_, err := s.PutIfMatch(t.Context(), "k", nil, etag)
		wantOnly(t, "replace "+etag, err, objectstore.ErrPrecondition)
		wantOnly(t, "delete "+etag, s.DeleteIfMatch(t.Context(), "k", etag), objectstore.ErrPrecondition)
	}
}

func TestListPassesOverWhatIsNoKey(t *testing.T) {
	s := open(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Get("start-after") == "" {
			fmt.Fprint(w, `<ListBucketResult><IsTruncated>true</IsTruncated><Contents><Key>a</Key></Contents><Contents><Key>folder/</Key></Contents></ListBucketResult>`)
			return
		}
		if after := r.URL.Query().Get("start-after"); after != "folder/" {
			t.Errorf("goes on after %q", after)
		}
		fmt.Fprint(w, `<ListBucketResult><Contents><Key>z</Key></Contents></ListBucketResult>`)
	}), s3.Options{})
	keys := ""
	for info, err := range objectstore.ListAll(t.Context(), s, "") {
		if err != nil {
			t.Fatal(err)
		}
		keys += info.Key
	}
	if keys != "az" {
		t.Errorf("keys %q", keys)
	}
}

func TestMissingCredentialsMayComeLater(t *testing.T) {
	setenv(t, "http://127.0.0.1:1")
	t.Setenv("AWS_ACCESS_KEY_ID", "")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "")
	s, err := s3.New(t.Context(), s3.Options{Bucket: "b"})
	if err != nil {
		t.Fatal(err)
	}
	_, err = s.Get(t.Context(), "k")
	wantOnly(t, "get", err, objectstore.ErrUnavailable)
	if !strings.Contains(err.Error(), "credentials") {
		t.Errorf("error is %v", err)
	}
}

func TestNewSaysWhatIsMissing(t *testing.T) {
	for want, change := range map[string]func(t *testing.T, opts *s3.Options){
		"no name":               func(_ *testing.T, opts *s3.Options) { opts.Bucket = "" },
		"AWS_REGION":            func(t *testing.T, _ *s3.Options) { t.Setenv("AWS_REGION", "") },
		"AWS_S3_USE_PATH_STYLE": func(t *testing.T, _ *s3.Options) { t.Setenv("AWS_S3_USE_PATH_STYLE", "perhaps") },
	} {
		t.Run(want, func(t *testing.T) {
			setenv(t, "http://127.0.0.1:1")
			opts := s3.Options{Bucket: "b"}
			change(t, &opts)
			if _, err := s3.New(t.Context(), opts); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("error is %v", err)
			}
		})
	}
}
