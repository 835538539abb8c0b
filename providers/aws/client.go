package aws

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"syscall"
	"time"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/ratelimit"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/feature/ec2/imds"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2"
	"github.com/aws/smithy-go/logging"
)

// clients are the APIs that the driver calls.
type clients struct {
	ec2  *ec2.Client
	elb  *elasticloadbalancingv2.Client
	imds *imds.Client
}

// signIn is how long a start waits for credentials: the metadata service of a
// machine that has just booted may be slow.
const signIn = 15 * time.Second

// connect makes the clients, by the SDK's usual files and variables of the
// environment, and makes sure that there are credentials to sign with.
func connect(ctx context.Context, opts Options) (clients, error) {
	cfg, err := config.LoadDefaultConfig(ctx, settings(opts)...)
	if err != nil {
		return clients{}, err
	}
	if cfg.Region == "" {
		return clients{}, errors.New("region: missing; set server.provider.region, or AWS_REGION")
	}
	cfg.Credentials = credentials{cfg.Credentials}
	ctx, cancel := context.WithTimeout(ctx, signIn)
	defer cancel()
	if _, err := cfg.Credentials.Retrieve(ctx); err != nil {
		return clients{}, fmt.Errorf("%w; set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, "+
			"name a profile (AWS_PROFILE, or profile in server.provider.options), or run on an instance that has a role", err)
	}
	return clients{
		ec2: ec2.NewFromConfig(cfg, func(o *ec2.Options) {
			o.Retryer, o.RetryMaxAttempts = onlyBrokenConnections(), 0
		}),
		elb: elasticloadbalancingv2.NewFromConfig(cfg, func(o *elasticloadbalancingv2.Options) {
			o.Retryer, o.RetryMaxAttempts = onlyBrokenConnections(), 0
		}),
		imds: imds.NewFromConfig(cfg),
	}, nil
}

func settings(opts Options) []func(*config.LoadOptions) error {
	var client config.HTTPClient = awshttp.NewBuildableClient().WithTransportOptions(func(t *http.Transport) {
		t.MaxIdleConnsPerHost = 64 // a burst of creates does without a handshake for each
	})
	if opts.HTTPClient != nil {
		client = opts.HTTPClient
	}
	with := []func(*config.LoadOptions) error{
		config.WithHTTPClient(client),
		config.WithLogger(logging.LoggerFunc(func(_ logging.Classification, format string, args ...any) {
			opts.Log.Warn("doubt of the AWS SDK", "says", fmt.Sprintf(format, args...))
		})),
	}
	if opts.Region != "" {
		with = append(with, config.WithRegion(opts.Region))
	}
	if opts.Profile != "" {
		with = append(with, config.WithSharedConfigProfile(opts.Profile))
	}
	return with
}

// onlyBrokenConnections repeats a call once if the connection broke, which a kept
// one does when the other side closes it. Any other repetition is the server's to
// decide: it knows the token buckets. It is for the APIs that those are of: sources of
// credentials keep the SDK's own repetitions, for nobody else repeats them.
func onlyBrokenConnections() sdk.Retryer { return repeatIf(broken) }

func repeatIf(is retry.IsErrorRetryableFunc) sdk.Retryer {
	return retry.NewStandard(func(o *retry.StandardOptions) {
		o.MaxAttempts = 2
		o.MaxBackoff = 200 * time.Millisecond
		o.RateLimiter = ratelimit.None
		o.Retryables = []retry.IsErrorRetryable{retry.NoRetryCanceledError{}, is}
	})
}

// noting sets broke if a connection breaks during the call that it is an option of. A
// refusal of the repetition then says nothing of what the first try did.
func noting(broke *bool) func(*ec2.Options) {
	return func(o *ec2.Options) {
		o.Retryer = repeatIf(func(err error) sdk.Ternary {
			*broke = *broke || broken(err) == sdk.TrueTernary
			return broken(err)
		})
	}
}

func broken(err error) sdk.Ternary {
	for _, cause := range []error{io.EOF, io.ErrUnexpectedEOF, syscall.ECONNRESET, syscall.EPIPE} {
		if errors.Is(err, cause) {
			return sdk.TrueTernary
		}
	}
	return sdk.FalseTernary
}

// credentials tell failures to sign from those of the call itself.
type credentials struct{ from sdk.CredentialsProvider }

// Retrieve implements [sdk.CredentialsProvider].
func (c credentials) Retrieve(ctx context.Context) (sdk.Credentials, error) {
	found, err := c.from.Retrieve(ctx)
	if err != nil {
		return sdk.Credentials{}, &credentialsError{err}
	}
	return found, nil
}
