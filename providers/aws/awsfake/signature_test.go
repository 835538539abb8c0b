package awsfake

import (
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/ec2"

	"nstance.dev/server/driver/drivertest/wire"
)

func TestSignatures(t *testing.T) {
	keys := func(access, secret string) func(*ec2.Options) {
		return func(o *ec2.Options) { o.Credentials = credentials.NewStaticCredentialsProvider(access, secret, "") }
	}
	c := New(Options{})
	for _, test := range []struct {
		name   string
		change func(*ec2.Options)
		want   string
	}{
		{"the keys of the account", keys(AccessKey, SecretKey), ""},
		{"keys with a session", func(o *ec2.Options) {
			o.Credentials = credentials.NewStaticCredentialsProvider(AccessKey, SecretKey, "session")
		}, ""},
		{"a wrong secret", keys(AccessKey, "guessed"), "SignatureDoesNotMatch"},
		{"unknown keys", keys("AKIASOMEBODYELSE", SecretKey), "AuthFailure"},
		{"no keys", func(o *ec2.Options) { o.Credentials = aws.AnonymousCredentials{} }, "MissingAuthenticationToken"},
		{"another region", func(o *ec2.Options) { o.Region = "eu-central-1" }, "SignatureDoesNotMatch"},
	} {
		_, err := c.client(test.change).DescribeInstances(t.Context(), &ec2.DescribeInstancesInput{})
		if got := code(err); got != test.want || (err == nil) != (test.want == "") {
			t.Errorf("%s: %v, want %q", test.name, err, test.want)
		}
	}
	if calls := c.Gate().Count(""); calls != 2 {
		t.Errorf("%d calls passed the check of signatures, want 2", calls)
	}
}

func TestSignaturesExpire(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := New(Options{})
		late := c.client(func(o *ec2.Options) {
			o.HTTPClient = &http.Client{Transport: slow{wire.RoundTripper(c), 6 * time.Minute}}
		})
		_, err := late.DescribeInstances(t.Context(), &ec2.DescribeInstancesInput{})
		wantCode(t, "a call that was six minutes on its way", err, "RequestExpired")
	})
}

type slow struct {
	http.RoundTripper
	by time.Duration
}

func (s slow) RoundTrip(r *http.Request) (*http.Response, error) {
	time.Sleep(s.by)
	return s.RoundTripper.RoundTrip(r)
}
