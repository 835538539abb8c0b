package awsfake

import (
	"context"
	"fmt"
	"net/http"
	"net/url"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2"
)

// Repeat reads a query as the input of its action, and makes that call by the SDK as
// it is: the SDK checks that nothing required is missing, writes the query anew, sends
// it once through transport and decodes the answer. The output is a pointer to the
// SDK's own type. A query with a parameter that its action does not have is an error,
// and nothing is sent.
func Repeat(ctx context.Context, region string, query url.Values, transport http.RoundTripper) (output any, err error) {
	act, known := actions()[query.Get("Action")]
	if !known || act.service.version != query.Get("Version") {
		return nil, fmt.Errorf("no known action %q of version %q", query.Get("Action"), query.Get("Version"))
	}
	cfg := aws.Config{
		Region: region,
		Credentials: aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
			return aws.Credentials{AccessKeyID: AccessKey, SecretAccessKey: SecretKey}, nil
		}),
		HTTPClient: &http.Client{Transport: transport},
		Retryer:    func() aws.Retryer { return aws.NopRetryer{} },
	}
	return act.repeat(ctx, clients{ec2.NewFromConfig(cfg), elasticloadbalancingv2.NewFromConfig(cfg)}, query)
}
