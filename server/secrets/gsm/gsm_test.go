package gsm_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	secretmanager "cloud.google.com/go/secretmanager/apiv1"
	"go.uber.org/goleak"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"nstance.dev/server/secrets"
	"nstance.dev/server/secrets/gsm"
	"nstance.dev/server/secrets/secretstest"
	"nstance.dev/server/secrets/secretstest/fakecloud"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.IgnoreTopFunction("go.opencensus.io/stats/view.(*worker).start"))
}

func client(t *testing.T, cloud *fakecloud.Google) *secretmanager.Client {
	t.Helper()
	c, err := secretmanager.NewClient(t.Context(), cloud.Options()...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func open(t *testing.T, cloud *fakecloud.Google, now func() time.Time) *gsm.Store {
	t.Helper()
	s, err := gsm.New(client(t, cloud), "project-1", "dev-", now)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestContract(t *testing.T) {
	secretstest.Run(t, gsm.Limits, func(t *testing.T) secrets.Store {
		cloud := fakecloud.NewGoogle(t)
		cloud.PutSecret("project-2", "dev-ca-key", []byte("of another project"))
		other, err := gsm.New(client(t, cloud), "project-1", "dev-eu-", nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := other.Put(t.Context(), "ca.key", secrets.Secret("of another cluster"), secrets.CreateOnly); err != nil {
			t.Fatal(err)
		}
		return open(t, cloud, nil)
	})
}

func TestDotsBecomeHyphens(t *testing.T) {
	cloud := fakecloud.NewGoogle(t)
	s := open(t, cloud, nil)
	if err := s.Put(t.Context(), "ca.key", secrets.Secret("text"), secrets.CreateOnly); err != nil {
		t.Fatal(err)
	}
	if got := cloud.Secrets()["projects/project-1/secrets/dev-ca-key"]; got != "text" {
		t.Errorf("the secret is %q", got)
	}
	if names, err := s.List(t.Context(), "ca."); err != nil || !slices.Equal(names, []string{"ca.key"}) {
		t.Errorf("list %q, %v", names, err)
	}
	for _, mode := range []secrets.Mode{secrets.CreateOnly, secrets.Overwrite} {
		if err := s.Put(t.Context(), "ca-key", secrets.Secret("x"), mode); !errors.Is(err, secrets.ErrName) || !strings.Contains(err.Error(), `"ca.key"`) {
			t.Errorf("a name with the same id: %v", err)
		}
	}
}

func TestSecretsMadeByHandAreRead(t *testing.T) {
	cloud := fakecloud.NewGoogle(t)
	cloud.PutSecret("project-1", "dev-ca-key", []byte("text"))
	s := open(t, cloud, nil)
	if got, err := s.Get(t.Context(), "ca.key"); err != nil || string(got) != "text" {
		t.Errorf("get %q, %v", []byte(got), err)
	}
	if names, err := s.List(t.Context(), ""); err != nil || !slices.Equal(names, []string{"ca-key"}) {
		t.Errorf("list %q, %v", names, err)
	}
}

func TestWhatCannotBeHeldIsNotSent(t *testing.T) {
	cloud := fakecloud.NewGoogle(t)
	for _, value := range []string{"", strings.Repeat("x", 64<<10+1)} {
		if err := open(t, cloud, nil).Put(t.Context(), "a", secrets.Secret(value), secrets.Overwrite); err == nil {
			t.Errorf("a value of %d bytes is accepted", len(value))
		}
	}
	if calls := cloud.Calls(); len(calls) > 0 {
		t.Errorf("calls %q", calls)
	}
}

// once has the first call of a method go wrong.
func once(method string, before, after error) func(string) (error, error) {
	done := false
	return func(called string) (error, error) {
		if done || called != method {
			return nil, nil
		}
		done = true
		return before, after
	}
}

func TestThrottlingOfReadsIsWaitedOut(t *testing.T) {
	cloud := fakecloud.NewGoogle(t)
	cloud.PutSecret("project-1", "dev-a", []byte("value"))
	cloud.SetFault(once("AccessSecretVersion", status.Error(codes.ResourceExhausted, "slow down"), nil))
	if got, err := open(t, cloud, nil).Get(t.Context(), "a"); err != nil || string(got) != "value" {
		t.Errorf("get %q, %v", []byte(got), err)
	}
}

func TestASecretWithoutAValue(t *testing.T) {
	cloud := fakecloud.NewGoogle(t)
	var late time.Duration
	s := open(t, cloud, func() time.Time { return time.Now().Add(late) })
	cloud.SetFault(once("AddSecretVersion", status.Error(codes.PermissionDenied, "no"), nil))
	if err := s.Put(t.Context(), "a", secrets.Secret("first"), secrets.CreateOnly); err == nil || errors.Is(err, secrets.ErrExists) {
		t.Fatalf("creation without permission: %v", err)
	}
	if _, err := s.Get(t.Context(), "a"); !errors.Is(err, secrets.ErrNotFound) {
		t.Errorf("get: %v, want ErrNotFound", err)
	}
	if err := s.Put(t.Context(), "a", secrets.Secret("second"), secrets.CreateOnly); !errors.Is(err, secrets.ErrExists) {
		t.Errorf("while its creator may still go on: %v, want ErrExists", err)
	}
	late = 6 * time.Minute
	if err := s.Put(t.Context(), "a", secrets.Secret("third"), secrets.CreateOnly); err != nil {
		t.Errorf("once it is abandoned: %v", err)
	}
	if got, err := s.Get(t.Context(), "a"); err != nil || string(got) != "third" {
		t.Errorf("get %q, %v", []byte(got), err)
	}
}

func TestF19_LostCreateAnswer(t *testing.T) {
	cloud := fakecloud.NewGoogle(t)
	cloud.SetFault(once("CreateSecret", nil, status.Error(codes.Unavailable, "lost")))
	if err := open(t, cloud, nil).Put(t.Context(), "a", secrets.Secret("value"), secrets.CreateOnly); err != nil {
		t.Errorf("creating a secret whose first answer was lost: %v", err)
	}
}

func TestS14_ErrorsShowNoValue(t *testing.T) {
	cloud := fakecloud.NewGoogle(t)
	cloud.SetFault(func(string) (error, error) {
		return status.Error(codes.InvalidArgument, `payload "MARKED-MARKED-MARKED" is bad`), nil
	})
	err := open(t, cloud, nil).Put(t.Context(), "a", secrets.Secret("MARKED-MARKED-MARKED"), secrets.Overwrite)
	if err == nil || strings.Contains(err.Error(), "MARKED") {
		t.Errorf("the error is %v", err)
	}
}

func TestAFailureIsNotAbsence(t *testing.T) {
	cloud := fakecloud.NewGoogle(t)
	cloud.SetFault(func(string) (error, error) { return status.Error(codes.PermissionDenied, "no"), nil })
	s := open(t, cloud, nil)
	_, getErr := s.Get(t.Context(), "a")
	_, listErr := s.List(t.Context(), "")
	for _, err := range []error{getErr, listErr, s.Delete(t.Context(), "a")} {
		if err == nil || errors.Is(err, secrets.ErrNotFound) {
			t.Errorf("error %v", err)
		}
	}
}

func TestNewChecks(t *testing.T) {
	for _, tt := range []struct {
		project, prefix string
		want            error
	}{
		{"project-1", "dev-", nil}, {"123", "", nil}, {"", "dev-", gsm.ErrProject}, {"a/b", "", gsm.ErrProject},
		{"p", "dev/", gsm.ErrPrefix}, {"p", "dev.", gsm.ErrPrefix},
	} {
		if _, err := gsm.New(nil, tt.project, tt.prefix, nil); !errors.Is(err, tt.want) {
			t.Errorf("project %q, prefix %q: %v, want %v", tt.project, tt.prefix, err, tt.want)
		}
	}
}

func TestKeySource(t *testing.T) {
	cloud := fakecloud.NewGoogle(t)
	cloud.PutSecret("project-1", "keys", []byte("hex:"+strings.Repeat("61", 32)))
	cloud.PutSecret("project-1", "bad", []byte("tooshort"))
	for id, want := range map[string]int{"keys": 1, "bad": 0, "absent": 0} {
		source, err := gsm.NewKeySource(client(t, cloud), "project-1", id)
		if err != nil {
			t.Fatal(err)
		}
		keys, err := source.Keys(t.Context())
		if len(keys) != want || (err == nil) != (want > 0) || err != nil && strings.Contains(err.Error(), "tooshort") {
			t.Errorf("%s: %d keys, %v", id, len(keys), err)
		}
	}
	for _, tt := range [][2]string{{"", "keys"}, {"project-1", ""}, {"project-1", "a/b"}} {
		if _, err := gsm.NewKeySource(nil, tt[0], tt[1]); !errors.Is(err, secrets.ErrKey) {
			t.Errorf("%q: %v", tt, err)
		}
	}
}
