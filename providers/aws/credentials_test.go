package aws_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"nstance.dev/providers/aws/awsfake"
	"nstance.dev/server/driver"
)

// vendor is the place where a container gets its credentials. They are about to expire,
// so that every call asks for new ones.
type vendor struct {
	status atomic.Int64 // that it answers with; 0: it has credentials
	ill    atomic.Int64 // how many of the next questions it answers with 503 before that
	asked  atomic.Int64
}

func (v *vendor) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	v.asked.Add(1)
	status := int(v.status.Load())
	switch {
	case v.ill.Add(-1) >= 0:
		w.WriteHeader(http.StatusServiceUnavailable)
	case status != 0:
		w.WriteHeader(status)
		_, _ = fmt.Fprint(w, `{"code": "Refused", "message": "no role"}`)
	default:
		_, _ = fmt.Fprintf(w, `{"AccessKeyId": %q, "SecretAccessKey": %q, "Token": "", "Expiration": %q}`,
			awsfake.AccessKey, awsfake.SecretKey, time.Now().Add(time.Second).UTC().Format(time.RFC3339))
	}
}

// S21: the server repeats calls of EC2; nobody but the SDK repeats those to the source of
// credentials. One that is ill for a moment is no reason to give up, and one that is ill
// for long no proof that the credentials are wrong.
func TestS21_CredentialsAreAskedForAgain(t *testing.T) {
	v := &vendor{}
	source := httptest.NewServer(v)
	t.Cleanup(source.Close)
	t.Cleanup(http.DefaultClient.CloseIdleConnections)
	for name, value := range map[string]string{
		"AWS_ACCESS_KEY_ID": "", "AWS_SECRET_ACCESS_KEY": "", "AWS_CONTAINER_CREDENTIALS_FULL_URI": source.URL,
	} {
		t.Setenv(name, value)
	}
	w := newWorld(t, awsfake.Options{})
	v.ill.Store(1)
	d := w.driver(t, "")
	for _, step := range []struct {
		name   string
		ill    int64
		status int64
		want   driver.ErrorClass
	}{
		{"ill for a moment", 1, 0, ""},
		{"ill for long", 100, 0, driver.Transient},
		{"well again", 0, 0, ""},
		{"no credentials any more", 0, http.StatusForbidden, driver.Auth},
	} {
		v.ill.Store(step.ill)
		v.status.Store(step.status)
		before, calls := v.asked.Load(), w.Gate().Count("DescribeInstances")
		_, err := d.List(t.Context(), owner)
		wantKind(t, step.name, err, step.want)
		if v.asked.Load() == before {
			t.Errorf("%s: nobody asked for credentials", step.name)
		}
		if n := w.Gate().Count("DescribeInstances") - calls; n > 1 {
			t.Errorf("%s: %d calls of EC2, want at most one", step.name, n)
		}
	}
}
