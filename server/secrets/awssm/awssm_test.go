package awssm_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/secretsmanager"

	"nstance.dev/server/secrets"
	"nstance.dev/server/secrets/awssm"
	"nstance.dev/server/secrets/secretstest/awstest"
	"nstance.dev/server/secrets/secretstest/fakecloud"
)

func client(cloud *fakecloud.AWS) *secretsmanager.Client {
	return secretsmanager.New(secretsmanager.Options{
		Region: "eu-central-1", BaseEndpoint: aws.String(cloud.URL),
		Credentials: credentials.NewStaticCredentialsProvider("id", "key", ""),
		Retryer:     awstest.Retryer(),
	})
}

func TestF8F19S14_Service(t *testing.T) {
	awstest.Run(t, awstest.Service{
		Prefix: "dev/", Limits: awssm.Limits, TooMuch: []string{"", strings.Repeat("x", 64<<10+1)},
		Actions: [4]string{"GetSecretValue", "CreateSecret", "ListSecrets", "DeleteSecret"},
		Open: func(t *testing.T, cloud *fakecloud.AWS) secrets.Store {
			t.Helper()
			s, err := awssm.New(client(cloud), "dev/")
			if err != nil {
				t.Fatal(err)
			}
			return s
		},
		Keys: func(cloud *fakecloud.AWS, name string) (secrets.KeySource, error) {
			return awssm.NewKeySource(client(cloud), name)
		},
		Put: (*fakecloud.AWS).PutSecret, Held: (*fakecloud.AWS).Secrets,
	})
}

func TestPrefixes(t *testing.T) {
	for prefix, good := range map[string]bool{
		"": true, "dev/": true, "a/b-c_d": true, "a b": false, "a*": false, strings.Repeat("x", 301): false,
	} {
		if _, err := awssm.New(nil, prefix); (err == nil) != good || err != nil && !errors.Is(err, awssm.ErrPrefix) {
			t.Errorf("prefix %q: %v", prefix, err)
		}
	}
}
