// Package awstest is what the stores of secrets on AWS promise beyond the contract of
// package secretstest, in the form of tests: how they bear throttling, lost answers and
// refusals, and how text gets in and out. Both run against the same fake account.
package awstest

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/retry"

	"nstance.dev/server/secrets"
	"nstance.dev/server/secrets/secretstest"
	"nstance.dev/server/secrets/secretstest/fakecloud"
)

// Service is one of the services that keep secrets, and the store on it.
type Service struct {
	// Root is before the names of everybody, and Prefix, which begins with it, before the
	// names of the store under test.
	Root, Prefix string
	Limits       secrets.Limits
	// TooMuch are values that it can't hold.
	TooMuch []string
	// Actions are what the service calls reading, creating, listing and deleting; the
	// second is the one whose answer may be lost.
	Actions [4]string
	// Open returns the store with Prefix.
	Open func(t *testing.T, cloud *fakecloud.AWS) secrets.Store
	// Keys returns the source of keys that a secret with a full name holds.
	Keys func(cloud *fakecloud.AWS, name string) (secrets.KeySource, error)
	// Put stores text as somebody else would, Held returns all that is stored, both by
	// full names.
	Put  func(cloud *fakecloud.AWS, name, text string)
	Held func(cloud *fakecloud.AWS) map[string]string
}

// Retryer has clients under test try again at once, and more often than is usual: on a busy
// box the SDK breaks connections of its own now and then, as it closes the body of a
// request before net/http has looked whether there is more of it.
func Retryer() aws.Retryer {
	return retry.NewStandard(func(o *retry.StandardOptions) { o.MaxAttempts, o.MaxBackoff = 10, time.Millisecond })
}

// Run tests the store on a service, the contract of secretstest included.
func Run(t *testing.T, s Service) {
	for _, tt := range []struct {
		name string
		test func(*testing.T, Service, *fakecloud.AWS)
	}{
		{"the text is held as it is", testText},
		{"what cannot be held is not sent", testTooMuch},
		{"throttling is waited out", testThrottling},
		{"F19: a lost answer of a create", testLostAnswer},
		{"S14: errors show no value", testErrorsShowNoValue},
		{"a failure is not absence", testFailure},
		{"keys", testKeys},
	} {
		t.Run(tt.name, func(t *testing.T) { tt.test(t, s, fakecloud.NewAWS(t)) })
	}
	t.Run("contract", func(t *testing.T) {
		secretstest.Run(t, s.Limits, func(t *testing.T) secrets.Store {
			cloud := fakecloud.NewAWS(t)
			s.Put(cloud, s.Prefix+"deeper/ca.key", "of another folder")
			s.Put(cloud, s.Root+"development/ca.key", "of another cluster")
			return s.Open(t, cloud)
		})
	})
}

func testText(t *testing.T, s Service, cloud *fakecloud.AWS) {
	if err := s.Open(t, cloud).Put(t.Context(), "ca.key", secrets.Secret("text"), secrets.CreateOnly); err != nil {
		t.Fatal(err)
	}
	if got := s.Held(cloud)[s.Prefix+"ca.key"]; got != "text" {
		t.Errorf("what is held is %q", got)
	}
}

func testTooMuch(t *testing.T, s Service, cloud *fakecloud.AWS) {
	for _, value := range s.TooMuch {
		if err := s.Open(t, cloud).Put(t.Context(), "a", secrets.Secret(value), secrets.Overwrite); err == nil {
			t.Errorf("a value of %d bytes is accepted", len(value))
		}
	}
	if calls := cloud.Calls(); len(calls) > 0 {
		t.Errorf("calls %q", calls)
	}
}

// once returns what goes wrong with the first call of an action.
func once(action string, fault fakecloud.Fault) func(string) fakecloud.Fault {
	done := false
	return func(called string) fakecloud.Fault {
		if done || called != action {
			return fakecloud.Fault{}
		}
		done = true
		return fault
	}
}

func testThrottling(t *testing.T, s Service, _ *fakecloud.AWS) {
	for _, action := range s.Actions {
		cloud := fakecloud.NewAWS(t)
		s.Put(cloud, s.Prefix+"a", "value")
		cloud.SetFault(once(action, fakecloud.Fault{Code: "ThrottlingException"}))
		store := s.Open(t, cloud)
		if got, err := store.Get(t.Context(), "a"); err != nil || string(got) != "value" {
			t.Errorf("%s throttled: get %q, %v", action, []byte(got), err)
		}
		if err := store.Put(t.Context(), "b", secrets.Secret("new"), secrets.CreateOnly); err != nil {
			t.Errorf("%s throttled: put: %v", action, err)
		}
		if names, err := store.List(t.Context(), ""); err != nil || !slices.Equal(names, []string{"a", "b"}) {
			t.Errorf("%s throttled: list %q, %v", action, names, err)
		}
		if err := store.Delete(t.Context(), "a"); err != nil {
			t.Errorf("%s throttled: delete: %v", action, err)
		}
	}
}

func testLostAnswer(t *testing.T, s Service, cloud *fakecloud.AWS) {
	cloud.SetFault(once(s.Actions[1], fakecloud.Fault{Lost: true}))
	if err := s.Open(t, cloud).Put(t.Context(), "a", secrets.Secret("value"), secrets.CreateOnly); err != nil {
		t.Errorf("creating a secret whose first answer was lost: %v", err)
	}
	cloud.SetFault(once(s.Actions[1], fakecloud.Fault{Lost: true}))
	if err := s.Open(t, cloud).Put(t.Context(), "a", secrets.Secret("other"), secrets.CreateOnly); !errors.Is(err, secrets.ErrExists) {
		t.Errorf("creating it again, with a lost answer: %v, want ErrExists", err)
	}
}

func testErrorsShowNoValue(t *testing.T, s Service, cloud *fakecloud.AWS) {
	cloud.SetFault(func(string) fakecloud.Fault { return fakecloud.Fault{Code: "ValidationException"} }) // quotes the request
	err := s.Open(t, cloud).Put(t.Context(), "a", secrets.Secret("MARKED-MARKED-MARKED"), secrets.Overwrite)
	if err == nil || strings.Contains(err.Error(), "MARKED") {
		t.Errorf("the error is %v", err)
	}
}

func testFailure(t *testing.T, s Service, cloud *fakecloud.AWS) {
	cloud.SetFault(func(string) fakecloud.Fault { return fakecloud.Fault{Code: "AccessDeniedException"} })
	store := s.Open(t, cloud)
	_, getErr := store.Get(t.Context(), "a")
	_, listErr := store.List(t.Context(), "")
	for _, err := range []error{getErr, listErr, store.Delete(t.Context(), "a")} {
		if err == nil || errors.Is(err, secrets.ErrNotFound) || !strings.Contains(err.Error(), "AccessDenied") {
			t.Errorf("error %v", err)
		}
	}
}

func testKeys(t *testing.T, s Service, cloud *fakecloud.AWS) {
	s.Put(cloud, "/keys/main", "hex:"+strings.Repeat("61", 32)+"\nhex:"+strings.Repeat("62", 32)+"\n")
	s.Put(cloud, "/keys/bad", "tooshort")
	for name, want := range map[string]int{"/keys/main": 2, "/keys/bad": 0, "/keys/absent": 0} {
		source, err := s.Keys(cloud, name)
		if err != nil {
			t.Fatal(err)
		}
		keys, err := source.Keys(t.Context())
		if len(keys) != want || (err == nil) != (want > 0) {
			t.Errorf("%s: %d keys, %v", name, len(keys), err)
		}
		if err != nil && (!strings.Contains(err.Error(), name) || strings.Contains(err.Error(), "tooshort")) {
			t.Errorf("%s: the error is %v", name, err)
		}
	}
	if _, err := s.Keys(cloud, ""); !errors.Is(err, secrets.ErrKey) {
		t.Errorf("without a name: %v", err)
	}
}
