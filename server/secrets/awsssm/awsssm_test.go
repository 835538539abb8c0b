package awsssm_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/ssm"

	"nstance.dev/server/secrets"
	"nstance.dev/server/secrets/awsssm"
	"nstance.dev/server/secrets/secretstest"
	"nstance.dev/server/secrets/secretstest/fakecloud"
)

func client(cloud *fakecloud.AWS) *ssm.Client {
	return ssm.New(ssm.Options{
		Region: "eu-central-1", BaseEndpoint: aws.String(cloud.URL),
		Credentials: credentials.NewStaticCredentialsProvider("id", "key", ""),
		Retryer:     retry.NewStandard(func(o *retry.StandardOptions) { o.MaxBackoff = time.Millisecond }),
	})
}

func open(t *testing.T, cloud *fakecloud.AWS) *awsssm.Store {
	t.Helper()
	s, err := awsssm.New(client(cloud), "/dev/")
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestContract(t *testing.T) {
	secretstest.Run(t, awsssm.Limits, func(t *testing.T) secrets.Store {
		cloud := fakecloud.NewAWS(t)
		cloud.PutParameter("/dev/deeper/ca.key", "of another folder")
		cloud.PutParameter("/development/ca.key", "of another cluster")
		return open(t, cloud)
	})
}

func TestAParameterHoldsTheText(t *testing.T) {
	cloud := fakecloud.NewAWS(t)
	if err := open(t, cloud).Put(t.Context(), "ca.key", secrets.Secret("text"), secrets.CreateOnly); err != nil {
		t.Fatal(err)
	}
	if got := cloud.Parameters()["/dev/ca.key"]; got != "text" {
		t.Errorf("the parameter is %q", got)
	}
}

func TestWhatCannotBeHeldIsNotSent(t *testing.T) {
	cloud := fakecloud.NewAWS(t)
	for _, value := range []string{"", "\xff", strings.Repeat("x", 4097)} {
		if err := open(t, cloud).Put(t.Context(), "a", secrets.Secret(value), secrets.Overwrite); err == nil {
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

func TestThrottlingIsWaitedOut(t *testing.T) {
	for _, action := range []string{"GetParameter", "PutParameter", "GetParametersByPath", "DeleteParameter"} {
		cloud := fakecloud.NewAWS(t)
		cloud.PutParameter("/dev/a", "value")
		cloud.SetFault(once(action, fakecloud.Fault{Code: "ThrottlingException"}))
		s := open(t, cloud)
		if got, err := s.Get(t.Context(), "a"); err != nil || string(got) != "value" {
			t.Errorf("%s throttled: get %q, %v", action, []byte(got), err)
		}
		if err := s.Put(t.Context(), "b", secrets.Secret("new"), secrets.CreateOnly); err != nil {
			t.Errorf("%s throttled: put: %v", action, err)
		}
		if names, err := s.List(t.Context(), ""); err != nil || !slices.Equal(names, []string{"a", "b"}) {
			t.Errorf("%s throttled: list %q, %v", action, names, err)
		}
		if err := s.Delete(t.Context(), "a"); err != nil {
			t.Errorf("%s throttled: delete: %v", action, err)
		}
	}
}

func TestF19_LostCreateAnswer(t *testing.T) {
	cloud := fakecloud.NewAWS(t)
	cloud.SetFault(once("PutParameter", fakecloud.Fault{Lost: true}))
	if err := open(t, cloud).Put(t.Context(), "a", secrets.Secret("value"), secrets.CreateOnly); err != nil {
		t.Errorf("creating a secret whose first answer was lost: %v", err)
	}
	cloud.SetFault(once("PutParameter", fakecloud.Fault{Lost: true}))
	if err := open(t, cloud).Put(t.Context(), "a", secrets.Secret("other"), secrets.CreateOnly); !errors.Is(err, secrets.ErrExists) {
		t.Errorf("creating it again, with a lost answer: %v, want ErrExists", err)
	}
}

func TestS14_ErrorsShowNoValue(t *testing.T) {
	cloud := fakecloud.NewAWS(t)
	cloud.SetFault(func(string) fakecloud.Fault { return fakecloud.Fault{Code: "ValidationException"} }) // quotes the request
	err := open(t, cloud).Put(t.Context(), "a", secrets.Secret("MARKED-MARKED-MARKED"), secrets.Overwrite)
	if err == nil || strings.Contains(err.Error(), "MARKED") {
		t.Errorf("the error is %v", err)
	}
}

func TestAFailureIsNotAbsence(t *testing.T) {
	cloud := fakecloud.NewAWS(t)
	cloud.SetFault(func(string) fakecloud.Fault { return fakecloud.Fault{Code: "AccessDeniedException"} })
	s := open(t, cloud)
	_, getErr := s.Get(t.Context(), "a")
	_, listErr := s.List(t.Context(), "")
	for _, err := range []error{getErr, listErr, s.Delete(t.Context(), "a")} {
		if err == nil || errors.Is(err, secrets.ErrNotFound) || !strings.Contains(err.Error(), "AccessDenied") {
			t.Errorf("error %v", err)
		}
	}
}

func TestPrefixes(t *testing.T) {
	for prefix, good := range map[string]bool{
		"/": true, "/dev/": true, "/a/b_c/": true,
		"": false, "dev/": false, "/dev": false, "//": false, "/aws/": false, "/SSM-x/": false, "/a b/": false,
	} {
		if _, err := awsssm.New(nil, prefix); (err == nil) != good || err != nil && !errors.Is(err, awsssm.ErrPrefix) {
			t.Errorf("prefix %q: %v", prefix, err)
		}
	}
}

func TestKeySource(t *testing.T) {
	cloud := fakecloud.NewAWS(t)
	cloud.PutParameter("/keys/main", "hex:"+strings.Repeat("61", 32)+"\nhex:"+strings.Repeat("62", 32)+"\n")
	cloud.PutParameter("/keys/bad", "tooshort")
	for name, want := range map[string]int{"/keys/main": 2, "/keys/bad": 0, "/keys/absent": 0} {
		source, err := awsssm.NewKeySource(client(cloud), name)
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
	if _, err := awsssm.NewKeySource(client(cloud), ""); !errors.Is(err, secrets.ErrKey) {
		t.Errorf("without a name: %v", err)
	}
}
