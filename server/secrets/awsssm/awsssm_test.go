package awsssm_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/ssm"

	"nstance.dev/server/secrets"
	"nstance.dev/server/secrets/awsssm"
	"nstance.dev/server/secrets/secretstest/awstest"
	"nstance.dev/server/secrets/secretstest/fakecloud"
)

func client(cloud *fakecloud.AWS) *ssm.Client {
	return ssm.New(ssm.Options{
		Region: "eu-central-1", BaseEndpoint: aws.String(cloud.URL),
		Credentials: credentials.NewStaticCredentialsProvider("id", "key", ""),
		Retryer:     awstest.Retryer(),
	})
}

func TestF8F19S14_Service(t *testing.T) {
	awstest.Run(t, awstest.Service{
		Root: "/", Prefix: "/dev/", Limits: awsssm.Limits, TooMuch: []string{"", "\xff", strings.Repeat("x", 4097)},
		Actions: [4]string{"GetParameter", "PutParameter", "GetParametersByPath", "DeleteParameter"},
		Open: func(t *testing.T, cloud *fakecloud.AWS) secrets.Store {
			t.Helper()
			s, err := awsssm.New(client(cloud), "/dev/")
			if err != nil {
				t.Fatal(err)
			}
			return s
		},
		Keys: func(cloud *fakecloud.AWS, name string) (secrets.KeySource, error) {
			return awsssm.NewKeySource(client(cloud), name)
		},
		Put: (*fakecloud.AWS).PutParameter, Held: (*fakecloud.AWS).Parameters,
	})
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
